"""Forking: a session that goes on from a place in another one, whose events it repeats as its own.

Every event up to that place is copied, with the sequence and the time it had, so that whatever a
manifest refers to stands in the fork where it stood in its origin, and the fork can be read and
proved without the other. Until all of them are there nothing may be asked of it. The origin is not
touched: who came from it is told by those who did.
"""

from __future__ import annotations

from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.session import Origin, SessionOpened
from turnlog.projections.session.attempts import Events
from turnlog.projections.session.commands import ForkSession
from turnlog.projections.session.state import SessionState


def opening(origin: SessionState, first: Recorded) -> SessionOpened:
    """Give the event that opens a fork of a session as it stands; refuses where none can begin."""
    if not isinstance(first.event, SessionOpened):
        raise Corrupt("event 1", "it does not open a session")
    _settled(origin)
    return first.event.model_copy(
        update={
            "origin": Origin(kind="fork", session=origin.session, sequence=origin.head.sequence),
            "key": {},
            "drawn": origin.drawn or origin.session,
        }
    )


def _settled(origin: SessionState) -> None:
    whole(origin)
    at = origin.head.sequence
    if origin.closed:
        detail = f"the session is closed at sequence {at}, and a fork of it would be too"
        raise Refused("session-closed", detail, field="at", fix="fork it before that event")
    if origin.open or origin.waiting:
        turn = origin.open.turn if origin.open else origin.waiting[0].turn
        detail = f"at sequence {at} turn {turn} is not settled"
        fix = (
            "fork where no turn is open or waiting: before it was submitted, or once it is settled"
        )
        raise Refused("turn-open", detail, field="at", fix=fix)


def fork_session(state: SessionState | None, command: ForkSession) -> Events:
    """Open a fork; one that was begun and is not whole is gone on with."""
    if state is None:
        return (command.opened,)
    if state.origin == command.opened.origin and missing(state):
        return ()
    raise Refused(
        "session-exists",
        f"session {state.session} is open already",
        field="session",
        fix="leave the id out, or choose another",
    )


def missing(state: SessionState) -> int:
    """Give how many events of its origin a fork still lacks."""
    origin = state.origin
    if origin is None or origin.kind != "fork":
        return 0
    return max(0, origin.sequence - state.head.sequence)


def whole(state: SessionState) -> None:
    """Refuse to act on a fork that does not have all of its origin's events yet."""
    if lacks := missing(state):
        raise Refused(
            "fork-unfinished",
            f"{lacks} events of its origin are not copied yet",
            field="session",
            fix="wait, or send the very fork again that began it",
        )
