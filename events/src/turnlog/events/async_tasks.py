"""Tasks that end for certain, and watches that are read without a task.

On Python 3.11 `asyncio.wait_for` swallows a cancellation that arrives together with its result, and
nats-py waits that way for every answer. So a task that was cancelled once may continue; it is
cancelled until it has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Protocol, TypeVar

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


ItemT_co = TypeVar("ItemT_co", covariant=True)

FirstItem = TypeVar("FirstItem")

SecondItem = TypeVar("SecondItem")

WAKE_SECONDS: Final = 1.0
"""Seconds after which a watch is polled without a wake-up, because it may check for a loss."""


class Watch(Protocol[ItemT_co]):
    """A source of items that sets an event when the next one may be there."""

    async def take_next(self) -> ItemT_co | None:
        """Return the next item if one is there."""
        ...


async def wait_for_wake(wake: asyncio.Event, seconds: float = WAKE_SECONDS) -> None:
    """Wait until watches may have something to take, at most so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await wake.wait()


async def stream_watch(wake: asyncio.Event, watch: Watch[FirstItem]) -> AsyncGenerator[FirstItem]:
    """Yield the items of a watch as they arrive, forever."""
    while True:
        wake.clear()
        while (item := await watch.take_next()) is not None:
            yield item
        await wait_for_wake(wake)


async def merge_watches(
    wake: asyncio.Event, first: Watch[FirstItem], second: Watch[SecondItem]
) -> AsyncGenerator[FirstItem | SecondItem]:
    """Yield the items of two watches as they arrive, forever.

    Both set `wake`. What is there of the first one comes first. Nothing is taken ahead, so a reader
    that leaves at an item can read either watch on elsewhere.
    """
    while True:
        wake.clear()
        while True:
            item: FirstItem | SecondItem | None = await first.take_next()
            if item is None:
                item = await second.take_next()
            if item is None:
                break
            yield item
        await wait_for_wake(wake)
