"""Short helpers to append and read sessions in tests of the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import TypeVar

from turnlog.events.codec import Batch, write
from turnlog.events.content import Plain
from turnlog.events.envelope import Head, Recorded
from turnlog.events.log.outcomes import Appended, Outcome
from turnlog.events.log.ports import Log, Raw
from turnlog.events.testing import drafts
from turnlog.events.turn import TurnSubmitted

Item = TypeVar("Item")


def said(*texts: str, first: int = 1) -> list[TurnSubmitted]:
    return [
        TurnSubmitted(turn=turn, text=Plain(text=text)) for turn, text in enumerate(texts, first)
    ]


def batch_of(tenant: str, session: str, after: Head | None, *texts: str) -> Batch:
    first = after.sequence + 1 if after else 1
    return write(tenant, session, after, drafts(said(*texts, first=first), first))


async def add(
    log: Log, tenant: str, session: str, *texts: str, after: Head | None = None
) -> tuple[Recorded, ...]:
    """Append texts as one batch and require that the append succeeds."""
    return appended(await log.append(batch_of(tenant, session, after, *texts)))


async def grow(
    log: Log, tenant: str, session: str, count: int, after: Head | None = None
) -> list[Recorded]:
    """Append events one by one."""
    events: list[Recorded] = []
    for _ in range(count):
        events += await add(log, tenant, session, "hello", after=after)
        after = events[-1].head
    return events


def appended(outcome: Outcome) -> tuple[Recorded, ...]:
    assert isinstance(outcome, Appended), outcome
    return outcome.events


async def take(items: AsyncIterator[Item], count: int, within: float = 30) -> list[Item]:
    """Take `count` items from an endless iterator."""
    taken: list[Item] = []
    async with asyncio.timeout(within):
        while len(taken) < count:
            taken.append(await anext(items))
    return taken


async def followed(log: Log, tenant: str | None, after: int = 0) -> list[Raw]:
    """Read all stored events after a stream sequence."""
    async with aclosing(log.follow(tenant, after, live=False)) as bulks:
        return [raw async for bulk in bulks for raw in bulk]


def sequences(events: Sequence[Recorded]) -> list[int]:
    return [event.sequence for event in events]
