"""Builders for tests: drafts and recorded events with ids and times that never change.

For tests of this house and of those built on it. A service has no business in here: its ids and
times come from outside, and its events from decisions.
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
"""When the first event of a test happens; each later one comes a second after the one before."""


def an_id(number: int) -> str:
    """Give the UUID with this number, the same every time."""
    return f"00000000-0000-7000-8000-{number:012x}"


def draft(
    event: KnownEvent, number: int = 1, *, actor: str = "user:ann", command: Command | None = None
) -> Draft:
    """Draft an event; `number` makes its id and its time."""
    at = AT + timedelta(seconds=number - 1)
    return Draft(event, an_id(number), at, "/turnlog/test", actor, command=command)


def drafts(events: Sequence[KnownEvent], first: int = 1) -> list[Draft]:
    """Draft events with the numbers from `first` on."""
    return [draft(event, number) for number, event in enumerate(events, first)]


def recorded(
    *events: KnownEvent, tenant: str = TENANT, session: str = SESSION, first: int = 1
) -> tuple[Recorded, ...]:
    """Record events as one session; ids count from `first`, places in the stream from 1."""
    batch = write(tenant, session, None, drafts(events, first))
    return tuple(read(message.payload, message.sequence) for message in batch.messages)
