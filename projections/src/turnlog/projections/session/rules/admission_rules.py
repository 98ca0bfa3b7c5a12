"""Whether a session takes a command at all: it is open, and no turn is."""

from __future__ import annotations

from turnlog.events.errors import Refused
from turnlog.projections.session.fold.settled_turns import build_unknown_turn, find_settled_turn
from turnlog.projections.session.state import SessionState, SettledTurnRef, SettledTurnRun


def require_open_session(state: SessionState) -> None:
    """Refuse a command to a closed session."""
    if state.closed:
        raise Refused("session-closed", "the session is closed", fix="open another session")


def require_no_open_turn(state: SessionState) -> None:
    """Refuse a command that has to wait until the open turn is settled."""
    if state.open is not None:
        detail = f"turn {state.open.turn} is not answered yet"
        raise Refused("turn-open", detail, fix="wait for it, or cancel it")


def require_settled_turn(state: SessionState, turn: int) -> SettledTurnRef | SettledTurnRun:
    """Return a turn that has ended; refuse one that is open, that waits, or that there is not."""
    found = find_settled_turn(state, turn)
    if found is None and 1 <= turn <= state.submitted:
        raise Refused("turn-open", f"turn {turn} is not settled", field="turn", fix="cancel it")
    if found is None:
        raise build_unknown_turn(turn)
    return found
