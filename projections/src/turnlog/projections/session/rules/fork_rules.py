"""Rules for forks: sessions that continue from a point in another session.

A fork copies every event up to that point with its sequence and time. So everything a manifest
refers to has the same sequence in the fork, and the fork can be read and verified without its
origin. Until all events are copied the fork refuses every other command. The origin is not changed:
only the fork records where it came from. How an event becomes one of the fork is in
`events.fork_copy`.
"""

from __future__ import annotations

from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.model.session_events import SessionOpened, SessionOrigin
from turnlog.projections.session.commands import ForkSession
from turnlog.projections.session.rules.attempt_events import NewEvents
from turnlog.projections.session.state import SessionState


def build_fork_opening(origin: SessionState, first: RecordedEvent) -> SessionOpened:
    """Return the opening event of a fork; refuse where the origin cannot be forked here."""
    if not isinstance(first.event, SessionOpened):
        raise Corrupt("event 1", "it does not open a session")
    _require_forkable(origin)
    return first.event.model_copy(
        update={
            "origin": SessionOrigin(
                kind="fork", session=origin.session, sequence=origin.head.sequence
            ),
            "key": {},
            "drawn": origin.drawn or origin.session,
            "owner": origin.owner,
        }
    )


def _require_forkable(origin: SessionState) -> None:
    require_complete_fork(origin)
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


def fork_session(state: SessionState | None, command: ForkSession) -> NewEvents:
    """Open a fork, or resume an unfinished one."""
    if state is None:
        return (command.opened,)
    if state.origin == command.opened.origin and count_missing_events(state):
        return ()
    raise Refused(
        "session-exists",
        f"session {state.session} is open already",
        field="session",
        fix="leave the id out, or choose another",
    )


def count_missing_events(state: SessionState) -> int:
    """Return how many events of its origin a fork still lacks."""
    origin = state.origin
    if origin is None or origin.kind != "fork":
        return 0
    return max(0, origin.sequence - state.head.sequence)


def require_complete_fork(state: SessionState) -> None:
    """Refuse every other command to a fork that still lacks events of its origin."""
    if lacks := count_missing_events(state):
        raise Refused(
            "fork-unfinished",
            f"{lacks} events of its origin are not copied yet",
            field="session",
            fix="wait, or repeat the fork request that began it",
        )
