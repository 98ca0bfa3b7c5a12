"""Rows and position move together and once, with concurrent writers."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import pytest
from sqlalchemy import event

from tests.projections.store.row_fold import (
    LOG_IDENTITY,
    begin_hidden_build,
    ensure_live_position,
    fold_events,
    read_rows,
    read_turn_rows,
)
from tests.projections.store.session_histories import (
    StoredSession,
    build_completed,
    build_opened,
    build_submitted,
    read_all_events,
)
from turnlog.events.content import compute_digest
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.projections.store.write import projection_positions
from turnlog.projections.store.write.batch_apply import apply_batch
from turnlog.projections.store.write.projection_positions import (
    ProjectionPosition,
    clear_hidden_builds,
)


async def read_position(store: ReadModelStore) -> ProjectionPosition | None:
    async with store.open_reader() as connection:
        return await projection_positions.read_active_position(connection)


@pytest.fixture
async def log() -> MemoryLog:
    log = MemoryLog()
    await StoredSession(log=log).append_events(
        build_opened(), build_submitted(1, "one"), build_completed(1, "first")
    )
    return log


async def test_position_is_that_of_the_last_folded_event(
    store: ReadModelStore, log: MemoryLog
) -> None:
    raws = await read_all_events(log)
    after, _ = await fold_events(store, await ensure_live_position(store), raws)
    assert (after.position, after.hash) == (3, compute_digest(raws[-1].stored))
    assert await read_position(store) == after


async def test_redelivered_events_change_nothing(store: ReadModelStore, log: MemoryLog) -> None:
    raws = await read_all_events(log)
    at = await ensure_live_position(store)
    after, _ = await fold_events(store, at, raws)
    rows = await read_rows(store, at.build)
    async with store.open_writer() as connection:
        assert await connection.run_sync(apply_batch, at, raws) is None
    assert await read_position(store) == after
    assert await read_rows(store, at.build) == rows


async def test_concurrent_folds_of_the_same_events_apply_them_once(
    store: ReadModelStore, log: MemoryLog
) -> None:
    events = await read_all_events(log)
    at = await ensure_live_position(store)

    async def folding() -> bool:
        async with store.open_writer() as connection:
            return await connection.run_sync(apply_batch, at, events) is not None

    assert sorted(await asyncio.gather(folding(), folding())) == [False, True]
    rebuilt, _ = await fold_events(
        store, await begin_hidden_build(store), await read_all_events(log)
    )
    assert await read_rows(store, at.build) == await read_rows(store, rebuilt.build)


async def test_fold_cancelled_before_its_commit_changes_nothing(
    store: ReadModelStore, log: MemoryLog
) -> None:
    events = await read_all_events(log)
    at = await ensure_live_position(store)
    folded = asyncio.Event()

    async def killed() -> None:
        async with store.open_writer() as connection:
            assert await connection.run_sync(apply_batch, at, events) is not None
            folded.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(killed())
    await folded.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await read_position(store) == at
    assert (await read_rows(store, at.build))["sessions"] == []
    after, _ = await fold_events(store, at, await read_all_events(log))
    assert after.position == 3


async def test_reader_sees_one_consistent_snapshot(store: ReadModelStore, log: MemoryLog) -> None:
    raws = await read_all_events(log)
    at, _ = await fold_events(store, await ensure_live_position(store), raws[:2])
    async with store.open_reader() as connection:
        before = await read_turn_rows(connection, "t", "s")
        await fold_events(store, at, raws[2:])
        assert await read_turn_rows(connection, "t", "s") == before
    async with store.open_reader() as connection:
        assert await read_turn_rows(connection, "t", "s") != before


async def test_switching_builds_moves_readers_at_once_and_fences_the_previous_build(
    store: ReadModelStore, log: MemoryLog
) -> None:
    raws = await read_all_events(log)
    old, _ = await fold_events(store, await ensure_live_position(store), raws[:1])
    new, _ = await fold_events(store, await begin_hidden_build(store), raws)
    async with store.open_writer() as connection:
        switched = await projection_positions.switch_to_build(connection, new)
    assert await read_position(store) == switched
    async with store.open_writer() as connection:
        assert await connection.run_sync(apply_batch, old, raws[1:]) is None


async def test_abandoned_build_cannot_be_filled_or_activated(
    store: ReadModelStore, log: MemoryLog
) -> None:
    raws = await read_all_events(log)
    seen, _ = await fold_events(store, await ensure_live_position(store), raws)
    given_up, _ = await fold_events(store, await begin_hidden_build(store), raws[:1])
    async with store.open_writer() as connection:
        await projection_positions.claim_hidden_builds(connection)
    async with store.open_writer() as connection:
        assert await connection.run_sync(apply_batch, given_up, raws[1:]) is None
        assert await projection_positions.switch_to_build(connection, given_up) is None
    assert await read_position(store) == seen


async def test_clearing_hidden_builds_deletes_only_their_rows(
    store: ReadModelStore, log: MemoryLog
) -> None:
    raws = await read_all_events(log)
    seen, _ = await fold_events(store, await ensure_live_position(store), raws)
    unseen, _ = await fold_events(store, await begin_hidden_build(store), raws)
    rows = await read_rows(store, seen.build)
    await clear_hidden_builds(store)
    assert await read_rows(store, seen.build) == rows
    assert not any((await read_rows(store, unseen.build)).values())
    assert await read_position(store) == seen


async def test_writer_cancelled_in_a_statement_releases_the_sqlite_lock(tmp_path: Path) -> None:
    store, other = (open_store(f"sqlite:///{tmp_path / 'rows.db'}") for _ in range(2))
    await prepare_schema(store)

    async def begin_and_count() -> None:
        async with store.open_writer() as connection:
            await projection_positions.begin_build(connection, LOG_IDENTITY, is_active=False)

    task = asyncio.create_task(begin_and_count())

    def cancel(*arguments: object) -> None:
        if "max(" in str(arguments[2]):
            task.cancel()

    event.listen(store.engine.sync_engine, "before_cursor_execute", cancel)
    # What the traceback refers to must not be freed by chance, or the lock goes with it.
    gc.disable()
    try:
        (cancelled,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(cancelled, asyncio.CancelledError)
        async with other.open_writer() as connection:
            assert await projection_positions.claim_hidden_builds(connection) == []
    finally:
        gc.enable()
    await store.close()
    await other.close()
