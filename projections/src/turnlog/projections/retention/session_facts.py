"""What policies and holds ask of a session, as its events say it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.session_events import SessionDescribed, SessionOpened
from turnlog.events.model.turn_events import (
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnQueued,
    TurnSubmitted,
)

_ACTIVITY: Final = (
    *(SessionOpened, TurnSubmitted, TurnQueued),
    *(TurnCompleted, TurnFailed, TurnCancelled),
)


def is_activity(recorded: RecordedEvent) -> bool:
    """Return whether an event is a use of its session: its opening, or begin or end of a turn.

    A label, a share, a redaction or an erasure is none: what is done about a session does not make
    it younger. Neither is what a fork has copied, which was a use of another session.
    """
    return isinstance(recorded.event, _ACTIVITY) and recorded.envelope.copyof is None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """What policies and holds ask of a session."""

    session: str
    blueprint: str
    labels: frozenset[str]
    users: frozenset[str]
    """Whose session it is, and who asked something in it."""
    used_at: datetime
    """When it was opened, or a turn of it last began or ended; all times count from there."""


def collect_facts(
    events: Sequence[RecordedEvent], blueprint: str, owner: str | None
) -> SessionFacts:
    """Return what policies and holds ask of a session; `events` are all of its events.

    The state of a session whose erasure has begun has no labels, and the events still have them.
    """
    users = {owner, *_iterate_askers(events)}
    return SessionFacts(
        session=events[0].session,
        blueprint=blueprint,
        labels=frozenset(_find_labels(events)),
        users=frozenset(each for each in users if each is not None),
        used_at=max(
            datetime.fromisoformat(each.envelope.time) for each in events if is_activity(each)
        ),
    )


def _find_labels(events: Sequence[RecordedEvent]) -> Iterable[str]:
    for each in reversed(events):
        event = each.event
        if isinstance(event, SessionOpened | SessionDescribed) and event.labels is not None:
            return event.labels
    return ()


def _iterate_askers(events: Iterable[RecordedEvent]) -> Iterable[str | None]:
    return (
        each.event.user for each in events if isinstance(each.event, TurnSubmitted | TurnQueued)
    )
