"""Two sources as one: what comes first is given first, and neither runs far ahead of its reader.

It promises no order between the two. When one ends, or breaks, so does the whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, TypeVar

from turnlog.services.runtime.tasks import stopped

First = TypeVar("First")
Second = TypeVar("Second")
Item = TypeVar("Item")

ROOM: Final = 64
"""Items that may wait for the reader."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """A source has ended."""

    error: Exception | None = None
    """What it raised, if it did."""


async def merged(
    first: AsyncGenerator[First], second: AsyncGenerator[Second]
) -> AsyncGenerator[First | Second]:
    """Give the items of both sources until one of them ends; raises what it raised."""
    queue: asyncio.Queue[First | Second | _Ended] = asyncio.Queue(ROOM)
    tasks = (
        asyncio.create_task(_pour(first, queue.put)),
        asyncio.create_task(_pour(second, queue.put)),
    )
    try:
        while not isinstance(item := await queue.get(), _Ended):
            yield item
        if item.error:
            raise item.error
    finally:
        await stopped(*tasks)


async def _pour(
    source: AsyncGenerator[Item], put: Callable[[Item | _Ended], Awaitable[None]]
) -> None:
    ended = _Ended()
    try:
        async with aclosing(source):
            async for item in source:
                await put(item)
    except Exception as error:  # noqa: BLE001 -- raised where the reader is
        ended = _Ended(error)
    await put(ended)
