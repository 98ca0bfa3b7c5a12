"""Two sources read as one: nothing is taken ahead, an end and an error reach the reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from turnlog.events.async_tasks import merge_streams


async def count_up(gate: asyncio.Event | None = None) -> AsyncGenerator[int]:
    for number in range(10):
        yield number
    if gate:
        await gate.wait()


async def wait_forever() -> AsyncGenerator[str]:
    await asyncio.Event().wait()
    yield "never"


async def test_a_source_is_read_on_where_the_merge_left_it() -> None:
    async with aclosing(count_up(asyncio.Event())) as numbers:
        async with aclosing(merge_streams(wait_forever(), numbers)) as merged:
            assert [await anext(merged) for _ in range(4)] == [0, 1, 2, 3]
        assert [await anext(numbers) for _ in range(3)] == [4, 5, 6]


async def test_the_end_of_one_source_ends_the_merge_after_all_its_items() -> None:
    async with aclosing(merge_streams(wait_forever(), count_up())) as merged:
        assert [item async for item in merged] == list(range(10))


async def test_the_error_of_a_source_is_raised_after_its_items() -> None:
    async def fail_after_one() -> AsyncGenerator[int]:
        yield 1
        raise ConnectionError

    async with aclosing(merge_streams(fail_after_one(), wait_forever())) as merged:
        assert await anext(merged) == 1
        with pytest.raises(ConnectionError):
            await anext(merged)
