"""Whether a session takes a command at all: it is open, and no turn is."""

from __future__ import annotations

from turnlog.events.errors import Refused
from turnlog.projections.session.state import SessionState


def require_open_session(state: SessionState) -> None:
    """Refuse a command to a closed session."""
    if state.closed:
        raise Refused("session-closed", "the session is closed", fix="open another session")


def require_no_open_turn(state: SessionState) -> None:
    """Refuse a command that has to wait until the open turn is settled."""
    if state.open is not None:
        detail = f"turn {state.open.turn} is not answered yet"
        raise Refused("turn-open", detail, fix="wait for it, or cancel it")
