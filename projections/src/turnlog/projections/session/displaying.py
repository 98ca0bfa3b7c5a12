from __future__ import annotations

from turnlog.events.content import PlainText
from turnlog.events.errors import Refused
from turnlog.events.turn import TurnDisplayed
from turnlog.projections.session.attempts import NewEvents
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_commands import DisplayTurn
from turnlog.projections.session.turns import find_settled_turn


def set_turn_display(state: SessionState, command: DisplayTurn) -> NewEvents:
    """Record how user interfaces show a turn; refuse one for a missing or redacted reply.

    No prompt contains a display form, so it may be set at any time, and set again.
    """
    turn = command.turn
    if not 1 <= turn <= state.submitted:
        raise Refused("unknown-turn", f"there is no turn {turn}", field="turn")
    if command.text is None and command.reply is None:
        fix = "give `text`, `reply` or both"
        raise Refused("bad-display", "there is nothing to be looked at", field="reply", fix=fix)
    found = find_settled_turn(state, turn)
    if command.reply is not None and (found is None or found.status != "completed"):
        raise Refused("no-reply", f"turn {turn} has no reply", field="reply")
    if command.reply is not None and found and found.redacted:
        what = f"the reply of turn {turn} is withheld"
        raise Refused("reply-withheld", what, field="reply", fix="leave it without")
    text, reply = command.text, command.reply
    return (
        TurnDisplayed(
            turn=turn,
            text=None if text is None else PlainText(text=text),
            reply=None if reply is None else PlainText(text=reply),
        ),
    )
