"""Rebuilding the rows while readers and the projector continue."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from sqlalchemy import text

from tests.faults.suite_extent import choose_examples
from tests.projections.store.row_fold import read_rows
from tests.projections.store.session_histories import (
    HISTORIES,
    HistoryStep,
    StoredHistory,
    StoredSession,
    append_raw,
    build_assembled,
    build_completed,
    build_opened,
    build_part,
    build_submitted,
)
from tests.services.projector.projector_runner import ProjectorRunner, ignore_progress
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read import session_queries
from turnlog.projections.store.read.read_your_writes import read_folded_sequence
from turnlog.projections.store.read.session_queries import SessionQuery
from turnlog.projections.store.write import projection_positions
from turnlog.projections.store.write.projection_positions import ProjectionPosition
from turnlog.services.projector.log_fold import rebuild_rows


async def read_active_build(store: ReadModelStore) -> ProjectionPosition:
    async with store.open_reader() as connection:
        live = await projection_positions.read_active_position(connection)
    assert live is not None
    return live


async def append_stories(log: MemoryLog, sessions: int = 3, turns: int = 5) -> list[StoredSession]:
    """Append events of several sessions, interleaved."""
    stories = [StoredSession(log=log, session=f"s{number}") for number in range(sessions)]
    for story in stories:
        await story.append_events(build_opened())
    for turn in range(1, turns + 1):
        for story in stories:
            await story.append_events(
                build_submitted(turn, f"turn {turn}"), build_completed(turn, f"reply {turn}")
            )
    return stories


@pytest.mark.slow("rows are built many times over, on both databases")
@settings(
    max_examples=choose_examples(8),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=HISTORIES)
async def test_rebuilt_rows_equal_the_live_ones_row_for_row(
    store: ReadModelStore, steps: list[HistoryStep]
) -> None:
    stored_history = StoredHistory()
    running = ProjectorRunner(log=stored_history.log, store=store)
    # Each example is another log: rebuilt from, it has the rows begun anew.
    await running.rebuild_rows()
    async with running.run_in_background():
        for step in steps:
            await stored_history.append_steps([step])
        await running.wait_for_position(len(stored_history.log.stored))
    live = await running.read_rows()
    assert live == await running.rebuild_rows()


@pytest.mark.slow("rows are built many times over, on both databases")
@pytest.mark.promise("P11")
async def test_readers_see_every_session_throughout_a_rebuild(
    store: ReadModelStore,
) -> None:
    log = MemoryLog()
    stories = await append_stories(log)
    running = ProjectorRunner(log=log, store=store)
    async with running.run_in_background():
        await running.wait_for_stories(*stories)
    found: list[int] = []

    async def reading() -> None:
        while True:
            async with store.open_reader() as connection:
                page = await session_queries.list_sessions(connection, "t", SessionQuery())
            found.append(sum(row.turns for row in page.sessions))

    reader = asyncio.create_task(reading())
    for _ in range(5):
        await running.rebuild_rows()
    reader.cancel()
    with suppress(asyncio.CancelledError):
        await reader
    assert set(found) == {15}


async def test_projector_continues_with_the_new_build_after_a_rebuild(
    store: ReadModelStore,
) -> None:
    log = MemoryLog()
    (story,) = await append_stories(log, sessions=1)
    running = ProjectorRunner(log=log, store=store)
    async with running.run_in_background() as task:
        await running.wait_for_stories(story)
        before = await read_active_build(store)
        assert await rebuild_rows(running.folding, ignore_progress) is not None
        await story.append_events(build_submitted(6, "after the rebuild"))
        await running.wait_for_stories(story)
        assert not task.done()
    after = await read_active_build(store)
    assert after.build > before.build
    assert not any((await read_rows(store, before.build)).values())


@pytest.mark.slow("rows are built many times over, on both databases")
async def test_reader_position_never_decreases_while_a_rebuild_catches_up(
    store: ReadModelStore,
) -> None:
    log = MemoryLog()
    (story,) = await append_stories(log, sessions=1)
    running = ProjectorRunner(log=log, store=store)
    seen_so_far = [0]

    async def append_turns() -> None:
        turn = 5
        while True:
            turn += 1
            await story.append_events(
                build_submitted(turn, "more"), build_completed(turn, "and more")
            )
            await running.wait_for_stories(story)

    async def reading() -> None:
        while True:
            seen_so_far.append(await read_folded_sequence(store, "t", "s0"))

    async with running.run_in_background():
        await running.wait_for_stories(story)
        others = [asyncio.create_task(append_turns()), asyncio.create_task(reading())]
        for _ in range(4):
            assert await rebuild_rows(running.folding, ignore_progress) is not None
        for other in others:
            other.cancel()
        ends = await asyncio.gather(*others, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends), ends
        await running.wait_for_stories(story)
    assert seen_so_far == sorted(seen_so_far)
    assert await running.read_rows() == await running.rebuild_rows()


async def test_rebuild_reports_its_progress(store: ReadModelStore) -> None:
    log = MemoryLog()
    stories = await append_stories(log)
    running = ProjectorRunner(log=log, store=store)
    async with running.run_in_background():
        await running.wait_for_stories(*stories)
    end = len(log.stored)
    steps: list[tuple[int, int]] = []
    await rebuild_rows(running.folding, lambda position, goal: steps.append((position, goal)))
    assert steps[-1] == (end, end)
    assert all(goal == end for _, goal in steps)


@pytest.mark.promise("P11")
@pytest.mark.parametrize("statement", range(4, 64, 6))
async def test_rebuild_cancelled_at_any_statement_leaves_the_rows_and_can_be_repeated(
    store: ReadModelStore, statement: int
) -> None:
    log = MemoryLog()
    stories = await append_stories(log, sessions=2, turns=2)
    running = ProjectorRunner(log=log, store=store)
    async with running.run_in_background():
        await running.wait_for_stories(*stories)
    before = await running.read_rows()
    await running.cancel_at_statement(statement, rebuild_rows(running.folding, ignore_progress))
    assert await running.read_rows() == before
    assert await running.rebuild_rows() == before
    assert await list_inactive_builds(store) == []


async def list_inactive_builds(store: ReadModelStore) -> list[int]:
    async with store.open_reader() as connection:
        found = await connection.scalars(text("SELECT build FROM projections WHERE NOT active"))
        return list(found)


async def test_two_concurrent_rebuilds_give_correct_rows(
    store: ReadModelStore,
) -> None:
    log = MemoryLog()
    stories = await append_stories(log)
    running = ProjectorRunner(log=log, store=store)
    async with running.run_in_background():
        await running.wait_for_stories(*stories)
        before = await running.read_rows()
        done = await asyncio.gather(
            *(rebuild_rows(running.folding, ignore_progress) for _ in range(2))
        )
        assert any(done)
    assert await running.read_rows() == before


async def test_rows_of_an_earlier_release_are_rebuilt_before_folding(
    store: ReadModelStore,
) -> None:
    log = MemoryLog()
    stories = await append_stories(log)
    running = ProjectorRunner(log=log, store=store)
    async with running.run_in_background():
        await running.wait_for_stories(*stories)
    right = await running.read_rows()
    async with store.open_writer() as connection:
        await connection.execute(text("UPDATE projections SET version = 0"))
        await connection.execute(text("UPDATE turns SET asked_by = 'as an earlier release had it'"))
    await stories[0].append_events(build_submitted(6, "later"))
    async with running.run_in_background():
        await running.wait_for_stories(stories[0])
    assert (await read_active_build(store)).version == projection_positions.SESSIONS_VERSION
    rows = await running.read_rows()
    assert set(rows["turns"]) > set(right["turns"])


async def test_rebuild_recovers_after_the_log_was_replaced(store: ReadModelStore) -> None:
    old = MemoryLog()
    stories = await append_stories(old)
    async with ProjectorRunner(log=old, store=store).run_in_background():
        await ProjectorRunner(log=old, store=store).wait_for_stories(*stories)
    new_log = MemoryLog(created="2026-02-02T00:00:00Z")
    story = StoredSession(log=new_log, session="only")
    await story.append_events(build_opened())
    running = ProjectorRunner(log=new_log, store=store)
    rows = await running.rebuild_rows()
    assert [row[1] for row in rows["sessions"]] == ["only"]
    async with running.run_in_background():
        await story.append_events(build_submitted(1, "one"))
        await running.wait_for_stories(story)


def _ignore_progress(position: int, goal: int) -> None:
    """Report nothing."""


@pytest.mark.promise("P13")
async def test_rows_rebuilt_in_small_batches_equal_the_live_ones_and_stop_the_same_sessions(
    store: ReadModelStore,
) -> None:
    log = MemoryLog()
    *stories, junk, refused = await append_stories(log, sessions=6)
    append_raw(log, b"no event at all", stories[0].session)
    broken = f'{{"tenant": "t", "subject": "{junk.session}", "sequence": 99}}'
    append_raw(log, broken.encode(), junk.session)
    await refused.append_events(build_assembled(5, "5.1", build_part("input", tokens=2**70)))
    for turn in range(6, 9):
        for story in (*stories, refused):
            await story.append_events(build_submitted(turn, "more"), build_completed(turn, "yes"))
    running = ProjectorRunner(log=log, store=store)
    async with running.run_in_background():
        await running.wait_for_position(len(log.stored))
    live = await running.read_rows()
    assert {row[1] for row in live["quarantine"]} == {junk.session, refused.session}
    assert [row[1] for row in live["stray_messages"]] == [stories[0].session]
    assert await rebuild_rows(replace(running.folding, catch_up_batch=10), _ignore_progress)
    assert await running.read_rows() == live
