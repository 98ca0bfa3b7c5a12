"""Two watches read as one: nothing is taken ahead, and an error reaches the reader."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field

import pytest

from turnlog.events.async_tasks import merge_watches, stream_watch


@dataclass
class CountingWatch:
    """Has the numbers up to `end`."""

    end: int
    taken: int = 0
    error: Exception | None = None
    """Raised after them."""

    async def take_next(self) -> int | None:
        if self.taken < self.end:
            self.taken += 1
            return self.taken
        if self.error:
            raise self.error
        return None


@dataclass
class SilentWatch:
    """Never has anything."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def take_next(self) -> str | None:
        self.asked.set()
        return None


async def test_watch_continues_where_the_merge_left_it() -> None:
    wake, numbers = asyncio.Event(), CountingWatch(7)
    async with aclosing(merge_watches(wake, SilentWatch(), numbers)) as merged:
        assert [await anext(merged) for _ in range(4)] == [1, 2, 3, 4]
    async with aclosing(stream_watch(wake, numbers)) as rest:
        assert [await anext(rest) for _ in range(3)] == [5, 6, 7]


async def test_waiting_reader_wakes_for_items_of_either_watch() -> None:
    wake, first, second = asyncio.Event(), CountingWatch(0), CountingWatch(0)
    async with aclosing(merge_watches(wake, first, second)) as merged:
        for watch in (first, second):
            waiting = asyncio.create_task(anext(merged))
            await asyncio.sleep(0)
            watch.end += 1
            wake.set()
            assert await waiting == 1


async def test_items_of_the_first_watch_come_first() -> None:
    wake = asyncio.Event()
    first, second = CountingWatch(3), CountingWatch(2)
    async with aclosing(merge_watches(wake, first, second)) as merged:
        assert [await anext(merged) for _ in range(5)] == [1, 2, 3, 1, 2]


async def test_error_of_a_watch_is_raised_after_its_items() -> None:
    failing = CountingWatch(1, error=ConnectionError())
    async with aclosing(merge_watches(asyncio.Event(), failing, SilentWatch())) as merged:
        assert await anext(merged) == 1
        with pytest.raises(ConnectionError):
            await anext(merged)


async def test_watch_without_wake_ups_is_polled_again() -> None:
    silent = SilentWatch()
    async with aclosing(stream_watch(asyncio.Event(), silent)) as nothing:
        waiting = asyncio.create_task(anext(nothing))
        await silent.asked.wait()
        silent.asked.clear()
        await silent.asked.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
