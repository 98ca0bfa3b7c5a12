"""Tasks that end for certain, and two asynchronous sources read as one.

On Python 3.11 `asyncio.wait_for` swallows a cancellation that arrives together with its result, and
nats-py waits that way for every answer. So a task that was cancelled once may continue; it is
cancelled until it has ended.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

_CANCEL_INTERVAL: Final = 0.005
"""Seconds to wait before a task is cancelled again."""


async def cancel_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until all have ended; ignore what they raise.

    A cancellation of the caller takes effect once all tasks have ended.
    """
    left = {task for task in tasks if not task.done()}
    interruption: asyncio.CancelledError | None = None
    while left:
        for task in left:
            task.cancel()
        try:
            await asyncio.wait(left, timeout=_CANCEL_INTERVAL)
        except asyncio.CancelledError as cancelled:
            interruption = cancelled
        left = {task for task in left if not task.done()}
    for task in tasks:
        if not task.cancelled():
            # Retrieve the exception, so that asyncio does not log it as never retrieved.
            task.exception()
    if interruption:
        raise interruption


@asynccontextmanager
async def run_tasks(
    *work: Coroutine[Any, Any, Any],
) -> AsyncGenerator[tuple[asyncio.Task[Any], ...]]:
    """Run coroutines while the body runs, then cancel what has not ended."""
    tasks = tuple(asyncio.create_task(each) for each in work)
    try:
        yield tasks
    finally:
        await cancel_tasks(*tasks)


FirstItem = TypeVar("FirstItem")

SecondItem = TypeVar("SecondItem")

ItemT = TypeVar("ItemT")


async def merge_streams(
    first: AsyncGenerator[FirstItem], second: AsyncGenerator[SecondItem]
) -> AsyncGenerator[FirstItem | SecondItem]:
    """Yield the items of both sources as they arrive until one source ends; raise its error.

    The order between the two sources is not defined. The next item of a source is requested when
    the reader has handled its last one. So a reader that leaves at an item can read that source on
    elsewhere, which a merge through a queue (anyio, aiostream) does not allow: it reads ahead, and
    what waits in its queue is lost. Closing the sources is up to the caller.
    """
    merge: _Merge[FirstItem | SecondItem] = _Merge()
    async with run_tasks(merge.forward_items(first), merge.forward_items(second)):
        while not isinstance(arrival := await merge.take_next(), _SourceEnd):
            yield arrival.item
            arrival.is_handled.set()
        if arrival.error:
            raise arrival.error


@dataclass(frozen=True, slots=True)
class _Arrival(Generic[ItemT]):
    """An item of a source, which is asked for its next one when this one is handled."""

    item: ItemT
    is_handled: asyncio.Event


@dataclass(frozen=True, slots=True)
class _SourceEnd:
    """The end of a source."""

    error: Exception | None = None
    """The error it raised, if any."""


@dataclass(frozen=True, slots=True)
class _Merge(Generic[ItemT]):
    """What has arrived and is not yet handed to the reader: at most one item of a source."""

    arrivals: deque[_Arrival[ItemT] | _SourceEnd] = field(
        default_factory=deque["_Arrival[ItemT] | _SourceEnd"]
    )
    has_arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def forward_items(self, source: AsyncGenerator[ItemT]) -> None:
        is_handled = asyncio.Event()
        end = _SourceEnd()
        try:
            async for item in source:
                self._add(_Arrival(item, is_handled))
                await is_handled.wait()
                is_handled.clear()
        except Exception as error:  # noqa: BLE001 -- raised where the reader is
            end = _SourceEnd(error)
        self._add(end)

    def _add(self, arrival: _Arrival[ItemT] | _SourceEnd) -> None:
        self.arrivals.append(arrival)
        self.has_arrived.set()

    async def take_next(self) -> _Arrival[ItemT] | _SourceEnd:
        while not self.arrivals:
            self.has_arrived.clear()
            await self.has_arrived.wait()
        return self.arrivals.popleft()
