from __future__ import annotations

from turnlog.events.content import Digest, compute_digest
from turnlog.events.tokens import AttemptClosed
from turnlog.projections.session.commands import CompleteTurn, AttemptUsage, WithheldAnswer
from turnlog.services.worker.attempt import ActiveAttempt
from turnlog.services.worker.going_on import list_tool_requests
from turnlog.services.worker.guard import GuardViolation
from turnlog.services.worker.model.exchange import FinishedAnswer
from turnlog.services.worker.understanding import ParsedAnswer


def build_completion(speaking: ActiveAttempt, end: FinishedAnswer, said: ParsedAnswer, spent: AttemptUsage) -> CompleteTurn:
    """Build the command that completes a turn with its reply, repaired if it had to be."""
    return CompleteTurn(
        speaking.attempt,
        said.text,
        end.finish_reason,
        spent,
        speaking.material.phases,
        list_tool_requests(end),
        references=speaking.material.references,
        raw=speaking.text if said.repairs else None,
        repairs=said.repairs,
        work=speaking.work,
    )


def build_closing_message(speaking: ActiveAttempt, end: FinishedAnswer, spent: AttemptUsage) -> AttemptClosed:
    """Build the closing message that the published tokens are verified against."""
    return AttemptClosed(
        call=speaking.attempt.call,
        attempt=speaking.attempt.attempt,
        length=len(speaking.text),
        digest=compute_digest(speaking.text),
        finish=end.finish_reason,
        usage=spent.usage,
        first_token=speaking.timings.first_token,
        total=speaking.timings.total,
        tools=list_tool_requests(end),
    )


def build_withheld_completion(speaking: ActiveAttempt, broken: GuardViolation, blob: Digest, spent: AttemptUsage) -> CompleteTurn:
    """Build the command that completes a turn with a replacement for its reply."""
    replacement = speaking.material.blueprint.policies.replacement
    return CompleteTurn(
        speaking.attempt,
        speaking.text,
        "safety",
        spent,
        speaking.material.phases,
        withheld=WithheldAnswer(broken.reason, broken.rule, replacement, blob),
    )
