from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, TypeVar

from turnlog.services.runtime.tasks import cancel_tasks

FirstItem = TypeVar("First")
SecondItem = TypeVar("Second")
SourceItem = TypeVar("Item")

MAX_QUEUED_ITEMS: Final = 64
"""How many items may wait for the reader."""


@dataclass(frozen=True, slots=True)
class _SourceEnd:
    """The end of a source."""

    error: Exception | None = None
    """The error it raised, if any."""


async def merge_streams(
    first: AsyncGenerator[FirstItem], second: AsyncGenerator[SecondItem]
) -> AsyncGenerator[FirstItem | SecondItem]:
    """Yield the items of both sources as they arrive until one source ends; raise its error.

    The order between the two sources is not defined. The bounded queue limits how far a source runs
    ahead of the reader.
    """
    queue: asyncio.Queue[FirstItem | SecondItem | _SourceEnd] = asyncio.Queue(MAX_QUEUED_ITEMS)
    tasks = (
        asyncio.create_task(_forward_items(first, queue.put)),
        asyncio.create_task(_forward_items(second, queue.put)),
    )
    try:
        while not isinstance(item := await queue.get(), _SourceEnd):
            yield item
        if item.error:
            raise item.error
    finally:
        await cancel_tasks(*tasks)


async def _forward_items(
    source: AsyncGenerator[SourceItem], put: Callable[[SourceItem | _SourceEnd], Awaitable[None]]
) -> None:
    ended = _SourceEnd()
    try:
        async with aclosing(source):
            async for item in source:
                await put(item)
    except Exception as error:  # noqa: BLE001 -- raised where the reader is
        ended = _SourceEnd(error)
    await put(ended)
