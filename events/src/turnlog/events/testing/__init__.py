"""Builders for tests: drafts and recorded events with fixed ids and times.

For tests of Turnlog and of software built on it. Services must not use them: they get ids and times
from outside, and events from decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from turnlog.events.codec import CommandRef, EventDraft, decode_event, encode_batch
from turnlog.events.envelope import RecordedEvent
from turnlog.events.registry import KnownEvent

TENANT: Final = "acme"
SESSION: Final = "s-1"
FIRST_EVENT_TIME: Final = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
"""Time of a test's first event; each later event is one second after the one before."""


def make_id(number: int) -> str:
    """Return the UUID with this number; it is the same every time."""
    return f"00000000-0000-7000-8000-{number:012x}"


def make_draft(
    event: KnownEvent,
    number: int = 1,
    *,
    actor: str = "user:ann",
    command: CommandRef | None = None,
) -> EventDraft:
    """Return a draft of an event; `number` determines its id and time."""
    at = FIRST_EVENT_TIME + timedelta(seconds=number - 1)
    return EventDraft(
        event=event, id=make_id(number), at=at, source="/turnlog/test", actor=actor, command=command
    )


def make_drafts(events: Sequence[KnownEvent], first: int = 1) -> list[EventDraft]:
    """Return drafts of events, numbered from `first`."""
    return [make_draft(event, number) for number, event in enumerate(events, first)]


def record_events(
    *events: KnownEvent, tenant: str = TENANT, session: str = SESSION, first: int = 1
) -> tuple[RecordedEvent, ...]:
    """Record events as one session; ids count from `first`, stream sequences from 1."""
    batch = encode_batch(tenant, session, None, make_drafts(events, first))
    return tuple(decode_event(message.payload, message.sequence) for message in batch.messages)
