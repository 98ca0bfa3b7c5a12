"""Whose session it is, and with whom it is shared."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.session_events import SessionOpened, SharedAccess
from turnlog.events.seals.person_names import USER_ACTOR_PREFIX


def find_owner(recorded: RecordedEvent, event: SessionOpened) -> str | None:
    """Return whose session was opened; before owners were recorded, that was who opened it."""
    if event.owner is not None or recorded.envelope.copyof is not None:
        return event.owner
    actor = recorded.envelope.actor
    return actor.removeprefix(USER_ACTOR_PREFIX) if actor.startswith(USER_ACTOR_PREFIX) else None


@dataclass(frozen=True, slots=True)
class ShareSession:
    """Say what another user may do in the session."""

    user: str
    access: SharedAccess | None
    """What the user may do from now on; None ends it."""
