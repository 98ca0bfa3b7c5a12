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
"""How many items may wait for the reader."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """The end of a source."""

    error: Exception | None = None
    """The error it raised, if any."""


async def merged(
    first: AsyncGenerator[First], second: AsyncGenerator[Second]
) -> AsyncGenerator[First | Second]:
    """Yield the items of both sources as they arrive until one source ends; raise its error.

    The order between the two sources is not defined. The bounded queue limits how far a source runs
    ahead of the reader.
    """
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
