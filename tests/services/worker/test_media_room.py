"""Room for the media of calls: who waits for it, and who is next."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnlog.events.async_tasks import run_tasks
from turnlog.services.worker.media_room import MediaRoom


async def hold_room(room: MediaRoom, size: int, end: asyncio.Event, held: list[int]) -> None:
    with room.open_share() as share:
        if not share.try_reserve(size):
            await share.wait_for_room()
        held.append(size)
        try:
            await end.wait()
        finally:
            held.remove(size)


async def run_ready_tasks() -> None:
    """Let every task go on until it waits for something."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_calls_are_served_in_the_order_in_which_they_came() -> None:
    room, ends, held = MediaRoom(100), [asyncio.Event() for _ in range(4)], list[int]()
    calls = (
        hold_room(room, size, end, held) for size, end in zip((60, 70, 30, 0), ends, strict=True)
    )
    async with run_tasks(*calls) as tasks:
        await run_ready_tasks()
        assert held == [60, 0], (
            "the small one does not pass the one that waits, and text never waits"
        )
        ends[0].set()
        await tasks[0]
        await run_ready_tasks()
        assert sorted(held) == [0, 30, 70]
        assert room.taken == 100
        for end in ends:
            end.set()
        await asyncio.wait(tasks)
    assert room.taken == 0


async def test_call_that_is_larger_than_the_room_is_made_alone() -> None:
    room, ends, held = MediaRoom(100), [asyncio.Event() for _ in range(3)], list[int]()
    calls = (
        hold_room(room, size, end, held) for size, end in zip((10, 300, 20), ends, strict=True)
    )
    async with run_tasks(*calls) as tasks:
        for number, alone in enumerate((10, 300, 20)):
            await run_ready_tasks()
            assert held == [alone]
            ends[number].set()
            await tasks[number]


@pytest.mark.parametrize("is_served", [False, True])
async def test_call_that_is_cancelled_keeps_nothing(is_served: bool) -> None:  # noqa: FBT001
    room, held = MediaRoom(100), list[int]()
    with room.open_share() as share:
        assert share.try_reserve(100)
        large = asyncio.create_task(hold_room(room, 90, asyncio.Event(), held))
        small = asyncio.create_task(hold_room(room, 50, asyncio.Event(), held))
        await run_ready_tasks()
        if is_served:
            share.release()  # Which the task has not seen yet.
        large.cancel()
        await asyncio.wait({large})
        share.release()
    await run_ready_tasks()
    assert (room.taken, room.waiting_count) == (50, 0)
    small.cancel()
    await asyncio.wait({small})
    assert room.taken == 0


async def test_smaller_call_is_served_once_the_larger_one_before_it_is_cancelled() -> None:
    room = MediaRoom(100)
    assert room.try_reserve(40)
    async with run_tasks(room.reserve(90), room.reserve(50)) as (large, small):
        await run_ready_tasks()
        assert room.taken == 40
        large.cancel()
        await small
        assert room.taken == 90


@settings(max_examples=50, deadline=None)
@given(sizes=st.lists(st.integers(0, 150), min_size=1, max_size=12), data=st.data())
def test_room_is_never_exceeded_and_everybody_is_served(
    sizes: list[int], data: st.DataObject
) -> None:
    async def run_calls() -> None:
        room, held = MediaRoom(100), list[int]()
        ends = [asyncio.Event() for _ in sizes]
        pairs = zip(sizes, ends, strict=True)
        async with run_tasks(*(hold_room(room, size, end, held) for size, end in pairs)) as tasks:
            for number in data.draw(st.permutations(range(len(sizes)))):
                await run_ready_tasks()
                assert room.taken == sum(held)
                assert sum(held) <= 100 or len([each for each in held if each]) == 1
                if data.draw(st.booleans()):
                    tasks[number].cancel()
                ends[number].set()
            await asyncio.wait(tasks)
        assert (room.taken, room.waiting_count, held) == (0, 0, [])

    asyncio.run(run_calls())
