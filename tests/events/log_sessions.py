"""Short helpers to append and read sessions in tests of the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import TypeVar

from turnlog.events.codec import EventBatch, encode_batch
from turnlog.events.content import PlainText
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.events.store.ports import AppendOutcome, BatchAppended, EventLog, RawEvent
from turnlog.events.testing import make_drafts

Item = TypeVar("Item")


def build_submissions(*texts: str, first: int = 1) -> list[TurnSubmitted]:
    return [
        TurnSubmitted(turn=turn, text=PlainText(text=text))
        for turn, text in enumerate(texts, first)
    ]


def build_batch(tenant: str, session: str, after: ChainHead | None, *texts: str) -> EventBatch:
    first = after.sequence + 1 if after else 1
    return encode_batch(
        tenant, session, after, make_drafts(build_submissions(*texts, first=first), first)
    )


async def append_texts(
    log: EventLog, tenant: str, session: str, *texts: str, after: ChainHead | None = None
) -> tuple[RecordedEvent, ...]:
    """Append these as one batch, and expect that to work."""
    return require_appended(await log.append_batch(build_batch(tenant, session, after, *texts)))


async def append_one_by_one(
    log: EventLog, tenant: str, session: str, count: int, after: ChainHead | None = None
) -> list[RecordedEvent]:
    """Append events one by one."""
    events: list[RecordedEvent] = []
    for _ in range(count):
        events += await append_texts(log, tenant, session, "hello", after=after)
        after = events[-1].head
    return events


def require_appended(outcome: AppendOutcome) -> tuple[RecordedEvent, ...]:
    assert isinstance(outcome, BatchAppended), outcome
    return outcome.events


async def take_items(items: AsyncIterator[Item], count: int, within: float = 30) -> list[Item]:
    """Take `count` items from an endless iterator."""
    taken: list[Item] = []
    async with asyncio.timeout(within):
        while len(taken) < count:
            taken.append(await anext(items))
    return taken


async def read_past(log: EventLog, tenant: str | None, after: int = 0) -> list[RawEvent]:
    """Read the past to its end."""
    async with aclosing(log.stream_raw_events(tenant, after, live=False)) as bulks:
        return [raw async for bulk in bulks for raw in bulk]


def list_sequences(events: Sequence[RecordedEvent]) -> list[int]:
    return [event.sequence for event in events]
