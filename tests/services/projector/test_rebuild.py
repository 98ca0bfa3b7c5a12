"""Rebuilding the rows while readers and the projector continue."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from sqlalchemy import text

from tests.projections.store.folding import rows_of
from tests.projections.store.histories import (
    Step,
    Story,
    Telling,
    completed,
    histories,
    opened,
    submitted,
)
from tests.services.projector.running import Running, no_progress
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read import session_queries
from turnlog.projections.store.read.read_your_writes import read_folded_sequence
from turnlog.projections.store.read.session_queries import SessionQuery
from turnlog.projections.store.write import projection_positions
from turnlog.projections.store.write.projection_positions import ProjectionPosition
from turnlog.services.projector.log_fold import rebuild_rows


async def seen(store: ReadModelStore) -> ProjectionPosition:
    async with store.open_reader() as connection:
        live = await projection_positions.read_active_position(connection)
    assert live is not None
    return live


async def told(log: MemoryLog, sessions: int = 3, turns: int = 5) -> list[Story]:
    """Append events of several sessions, interleaved."""
    stories = [Story(log, f"s{number}") for number in range(sessions)]
    for story in stories:
        await story.tell(opened())
    for turn in range(1, turns + 1):
        for story in stories:
            await story.tell(submitted(turn, f"turn {turn}"), completed(turn, f"reply {turn}"))
    return stories


@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=histories)
async def test_rebuilt_rows_equal_the_live_ones_row_for_row(
    store: ReadModelStore, steps: list[Step]
) -> None:
    telling = Telling()
    running = Running(telling.log, store)
    # Each example is another log: rebuilt from, it has the rows begun anew.
    await running.rebuilt()
    async with running.beside():
        for step in steps:
            await telling.tell([step])
        await running.folded_all(len(telling.log.stored))
    live = await running.rows()
    assert live == await running.rebuilt()


@pytest.mark.promise("P11")
async def test_readers_find_every_session_at_every_moment_of_a_rebuild(
    store: ReadModelStore,
) -> None:
    log = MemoryLog()
    stories = await told(log)
    running = Running(log, store)
    async with running.beside():
        await running.caught_up(*stories)
    found: list[int] = []

    async def reading() -> None:
        while True:
            async with store.open_reader() as connection:
                page = await session_queries.list_sessions(connection, "t", SessionQuery())
            found.append(sum(row.turns for row in page.sessions))

    reader = asyncio.create_task(reading())
    for _ in range(5):
        await running.rebuilt()
    reader.cancel()
    with suppress(asyncio.CancelledError):
        await reader
    assert set(found) == {15}


async def test_projector_goes_on_with_the_new_rows_after_a_rebuild(store: ReadModelStore) -> None:
    log = MemoryLog()
    (story,) = await told(log, sessions=1)
    running = Running(log, store)
    async with running.beside() as task:
        await running.caught_up(story)
        before = await seen(store)
        assert await rebuild_rows(running.folding, no_progress) is not None
        await story.tell(submitted(6, "after the rebuild"))
        await running.caught_up(story)
        assert not task.done()
    after = await seen(store)
    assert after.build > before.build
    assert not any((await rows_of(store, before.build)).values())


async def test_readers_never_go_back_while_a_rebuild_draws_level_with_a_busy_projector(
    store: ReadModelStore,
) -> None:
    log = MemoryLog()
    (story,) = await told(log, sessions=1)
    running = Running(log, store)
    seen_so_far = [0]

    async def telling() -> None:
        turn = 5
        while True:
            turn += 1
            await story.tell(submitted(turn, "more"), completed(turn, "and more"))
            await running.caught_up(story)

    async def reading() -> None:
        while True:
            seen_so_far.append(await read_folded_sequence(store, "t", "s0"))

    async with running.beside():
        await running.caught_up(story)
        others = [asyncio.create_task(telling()), asyncio.create_task(reading())]
        for _ in range(4):
            assert await rebuild_rows(running.folding, no_progress) is not None
        for other in others:
            other.cancel()
        ends = await asyncio.gather(*others, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends
        await running.caught_up(story)
    assert seen_so_far == sorted(seen_so_far)
    assert await running.rows() == await running.rebuilt()


async def test_rebuild_tells_how_far_it_is(store: ReadModelStore) -> None:
    log = MemoryLog()
    stories = await told(log)
    running = Running(log, store)
    async with running.beside():
        await running.caught_up(*stories)
    end = len(log.stored)
    steps: list[tuple[int, int]] = []
    await rebuild_rows(running.folding, lambda position, goal: steps.append((position, goal)))
    assert steps[-1] == (end, end)
    assert all(goal == end for _, goal in steps)


@pytest.mark.promise("P11")
@pytest.mark.parametrize("statement", range(4, 64, 6))
async def test_rebuild_that_crashes_at_any_point_leaves_what_readers_see_and_can_be_repeated(
    store: ReadModelStore, statement: int
) -> None:
    log = MemoryLog()
    stories = await told(log, sessions=2, turns=2)
    running = Running(log, store)
    async with running.beside():
        await running.caught_up(*stories)
    before = await running.rows()
    await running.cancelled_at(statement, rebuild_rows(running.folding, no_progress))
    assert await running.rows() == before
    assert await running.rebuilt() == before
    assert await unseen(store) == []


async def unseen(store: ReadModelStore) -> list[int]:
    async with store.open_reader() as connection:
        found = await connection.scalars(text("SELECT build FROM projections WHERE NOT active"))
        return list(found)


async def test_of_two_rebuilds_at_once_one_takes_over_and_the_rows_are_right(
    store: ReadModelStore,
) -> None:
    log = MemoryLog()
    stories = await told(log)
    running = Running(log, store)
    async with running.beside():
        await running.caught_up(*stories)
        before = await running.rows()
        done = await asyncio.gather(*(rebuild_rows(running.folding, no_progress) for _ in range(2)))
        assert any(done)
    assert await running.rows() == before


async def test_rows_of_an_earlier_release_are_rebuilt_before_anything_is_folded(
    store: ReadModelStore,
) -> None:
    log = MemoryLog()
    stories = await told(log)
    running = Running(log, store)
    async with running.beside():
        await running.caught_up(*stories)
    right = await running.rows()
    async with store.open_writer() as connection:
        await connection.execute(text("UPDATE projections SET version = 0"))
        await connection.execute(text("UPDATE turns SET finish = 'as an earlier release had it'"))
    await stories[0].tell(submitted(6, "later"))
    async with running.beside():
        await running.caught_up(stories[0])
    assert (await seen(store)).version == projection_positions.SESSIONS_VERSION
    finishes = {row[7] for row in (await running.rows())["turns"]}
    assert finishes == {row[7] for row in right["turns"]} | {None}


async def test_rebuild_is_the_way_back_after_the_log_was_replaced(store: ReadModelStore) -> None:
    old = MemoryLog()
    stories = await told(old)
    async with Running(old, store).beside():
        await Running(old, store).caught_up(*stories)
    anew = MemoryLog(created="2026-02-02T00:00:00Z")
    story = Story(anew, "only")
    await story.tell(opened())
    running = Running(anew, store)
    rows = await running.rebuilt()
    assert [row[1] for row in rows["sessions"]] == ["only"]
    async with running.beside():
        await story.tell(submitted(1, "one"))
        await running.caught_up(story)
