from __future__ import annotations

from turnlog.events.content import Digest, digest_of
from turnlog.events.tokens import AttemptClosed
from turnlog.projections.session.commands import CompleteTurn, Spent, Withheld
from turnlog.services.worker.attempt import Speaking
from turnlog.services.worker.going_on import tools_in
from turnlog.services.worker.guard import Violation
from turnlog.services.worker.model.exchange import Finished
from turnlog.services.worker.understanding import Understood


def replying(speaking: Speaking, end: Finished, said: Understood, spent: Spent) -> CompleteTurn:
    """Build the command that completes a turn with its reply, repaired if it had to be."""
    return CompleteTurn(
        speaking.attempt,
        said.text,
        end.finish_reason,
        spent,
        speaking.material.phases,
        tools_in(end),
        references=speaking.material.references,
        raw=speaking.text if said.repairs else None,
        repairs=said.repairs,
        work=speaking.work,
    )


def closing(speaking: Speaking, end: Finished, spent: Spent) -> AttemptClosed:
    """Build the closing message that the published tokens are verified against."""
    return AttemptClosed(
        call=speaking.attempt.call,
        attempt=speaking.attempt.attempt,
        length=len(speaking.text),
        digest=digest_of(speaking.text),
        finish=end.finish_reason,
        usage=spent.usage,
        first_token=speaking.timings.first_token,
        total=speaking.timings.total,
        tools=tools_in(end),
    )


def withholding(speaking: Speaking, broken: Violation, blob: Digest, spent: Spent) -> CompleteTurn:
    """Build the command that completes a turn with a replacement for its reply."""
    replacement = speaking.material.blueprint.policies.replacement
    return CompleteTurn(
        speaking.attempt,
        speaking.text,
        "safety",
        spent,
        speaking.material.phases,
        withheld=Withheld(broken.reason, broken.rule, replacement, blob),
    )
