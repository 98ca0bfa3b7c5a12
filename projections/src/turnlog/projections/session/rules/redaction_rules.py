"""Rules for redactions: of a reply, of what a person submitted, or of both.

Nothing of an open turn can be redacted: it is cancelled first. Summaries that cover the turn are
undone, so that windows show its replacements and not what was made of the words.
"""

from __future__ import annotations

from turnlog.events.content import PlainText
from turnlog.events.errors import Refused
from turnlog.events.model.redaction_events import ReplyRedacted, TextRedacted
from turnlog.projections.session.rules.admission_rules import require_settled_turn
from turnlog.projections.session.rules.attempt_events import NewEvents
from turnlog.projections.session.rules.steps.summary_rules import undo_summaries_of_turn
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_commands import RedactReply, RedactText, RedactTurn


def redact_reply(state: SessionState, command: RedactReply) -> NewEvents:
    """Withhold a reply; refuse a turn that has none, or whose reply is withheld."""
    found = require_settled_turn(state, command.turn)
    if found.role == "system":
        what, fix = (
            f"turn {command.turn} has the role `system`, and no reply",
            "redact its text, or exclude the turn",
        )
        raise Refused("no-reply", what, field="turn", fix=fix)
    if found.redacted:
        raise Refused("already-redacted", f"the reply of turn {command.turn} is withheld already")
    withheld = build_reply_redaction(command)
    return (withheld, *undo_summaries_of_turn(state, command.turn, "redacted"))


def redact_text(state: SessionState, command: RedactText) -> NewEvents:
    """Withhold what a person submitted; refuse a turn of which nothing is left to withhold."""
    if require_settled_turn(state, command.turn).text_redaction == "whole":
        raise Refused("already-redacted", f"the text of turn {command.turn} is withheld already")
    withheld = build_text_redaction(command)
    return (withheld, *undo_summaries_of_turn(state, command.turn, "redacted"))


def redact_turn(state: SessionState, command: RedactTurn) -> NewEvents:
    """Withhold the text and the reply of a turn, as far as they are not; refuse if both are."""
    turn = command.text.turn
    found = require_settled_turn(state, turn)
    withheld: list[TextRedacted | ReplyRedacted] = []
    if found.text_redaction != "whole":
        withheld.append(build_text_redaction(command.text))
    if not found.redacted and found.role == "user":
        withheld.append(build_reply_redaction(command.reply))
    if not withheld:
        raise Refused("already-redacted", f"turn {turn} is withheld already")
    return (*withheld, *undo_summaries_of_turn(state, turn, "redacted"))


def build_text_redaction(command: RedactText) -> TextRedacted:
    """Return the event of a redacted text."""
    return TextRedacted(
        turn=command.turn,
        reason=command.reason,
        rule=command.rule,
        replacement=PlainText(text=command.replacement),
        spans=command.spans,
    )


def build_reply_redaction(command: RedactReply) -> ReplyRedacted:
    """Return the event of a redacted reply."""
    return ReplyRedacted(
        turn=command.turn,
        reason=command.reason,
        rule=command.rule,
        replacement=PlainText(text=command.replacement),
    )
