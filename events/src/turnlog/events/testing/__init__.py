"""Builders for tests: drafts and recorded events with fixed ids and times.

For tests of Turnlog and of software built on it. Services must not use them: they get ids and times
from outside, and events from decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from turnlog.events.codec import Command, Draft, read, write
from turnlog.events.envelope import Recorded
from turnlog.events.kinds import KnownEvent

__all__ = ["AT", "SESSION", "TENANT", "an_id", "draft", "drafts", "recorded"]

TENANT: Final = "acme"
SESSION: Final = "s-1"
AT: Final = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
"""Time of a test's first event; each later event is one second after the one before."""


def an_id(number: int) -> str:
    """Return the UUID with this number; it is the same every time."""
    return f"00000000-0000-7000-8000-{number:012x}"


def draft(
    event: KnownEvent, number: int = 1, *, actor: str = "user:ann", command: Command | None = None
) -> Draft:
    """Return a draft of an event; `number` determines its id and time."""
    at = AT + timedelta(seconds=number - 1)
    return Draft(event, an_id(number), at, "/turnlog/test", actor, command=command)


def drafts(events: Sequence[KnownEvent], first: int = 1) -> list[Draft]:
    """Return drafts of events, numbered from `first`."""
    return [draft(event, number) for number, event in enumerate(events, first)]


def recorded(
    *events: KnownEvent, tenant: str = TENANT, session: str = SESSION, first: int = 1
) -> tuple[Recorded, ...]:
    """Record events as one session; ids count from `first`, stream sequences from 1."""
    batch = write(tenant, session, None, drafts(events, first))
    return tuple(read(message.payload, message.sequence) for message in batch.messages)
