"""Postgres that stops, is killed or is cut off in a commit: each event is folded once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from sqlalchemy import event
from structlog.testing import capture_logs

from tests.projections.store.session_histories import (
    StoredSession,
    build_completed,
    build_opened,
    build_submitted,
)
from tests.services.projector.projector_runner import TEST_TIMEOUT_SECONDS, ProjectorRunner
from tests.support.servers.fault_proxy import FaultProxy
from tests.support.servers.postgres_server import PostgresServer
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.projections.store.write import projection_positions

pytestmark = pytest.mark.promise("P10")

DATABASE = "turnlog"


@pytest.fixture
async def direct(own_postgres: PostgresServer) -> AsyncIterator[ReadModelStore]:
    await own_postgres.execute_statement(f"CREATE DATABASE {DATABASE}")
    store = open_store(own_postgres.build_url(DATABASE))
    await prepare_schema(store)
    yield store
    await store.close()


@pytest.mark.slow("rows are built many times over, on both databases")
@pytest.mark.parametrize("end", [PostgresServer.stop_server, PostgresServer.kill_server])
async def test_events_are_folded_once_across_postgres_restarts(
    own_postgres: PostgresServer, direct: ReadModelStore, end: Callable[[PostgresServer], None]
) -> None:
    log = MemoryLog()
    story, running = StoredSession(log=log), ProjectorRunner(log=log, store=direct)
    await story.append_events(build_opened())
    with capture_logs() as log_lines:
        async with running.run_in_background() as task:
            for turn in range(1, 4):
                await running.wait_for_stories(story)
                await asyncio.to_thread(end, own_postgres)
                await story.append_events(
                    build_submitted(turn, "while it is down"), build_completed(turn, "so it is")
                )
                while len([e for e in log_lines if e["event"] == "projector-waiting"]) < turn:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(own_postgres.start_server)
            await running.wait_for_stories(story)
            assert not task.done()
    assert await running.read_rows() == await running.rebuild_rows()


async def read_position(store: ReadModelStore) -> int:
    async with store.open_reader() as connection:
        live = await projection_positions.read_active_position(connection)
    return live.position if live else 0


def run_at_next_commit(store: ReadModelStore, act: Callable[[], None]) -> None:
    """Do something once, when the next events are about to be committed."""
    engine, moved, done = store.engine.sync_engine, False, False

    def look(*arguments: object) -> None:
        nonlocal moved
        moved = moved or "SET position" in str(arguments[2])

    def commit(_: object) -> None:
        nonlocal done
        if moved and not done:
            done = True
            act()

    event.listen(engine, "before_cursor_execute", look)
    event.listen(engine, "commit", commit)


async def test_connection_cut_after_a_commit_folds_no_event_twice(
    own_postgres: PostgresServer, direct: ReadModelStore
) -> None:
    log = MemoryLog()
    story = StoredSession(log=log)
    await story.append_events(build_opened())
    async with FaultProxy(f"tcp://127.0.0.1:{own_postgres.port}").run_proxy() as proxy:
        store = open_store(_build_proxy_url(proxy))
        running = ProjectorRunner(log=log, store=store)
        beside = ProjectorRunner(log=log, store=direct, projection_signal=running.projection_signal)
        async with running.run_in_background():
            await beside.wait_for_stories(story)
            for turn in range(1, 4):
                run_at_next_commit(store, proxy.drop_server_data)
                await story.append_events(
                    build_submitted(turn, "a turn"), build_completed(turn, "and its reply")
                )
                async with asyncio.timeout(TEST_TIMEOUT_SECONDS):
                    while await read_position(direct) < len(log.stored):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                proxy.reset_faults()
            await beside.wait_for_stories(story)
        await store.close()
    assert await read_position(direct) == len(log.stored)
    assert await beside.read_rows() == await beside.rebuild_rows()


async def test_connection_cut_before_a_commit_loses_no_event(
    own_postgres: PostgresServer, direct: ReadModelStore
) -> None:
    log = MemoryLog()
    story = StoredSession(log=log)
    await story.append_events(build_opened())
    async with FaultProxy(f"tcp://127.0.0.1:{own_postgres.port}").run_proxy() as proxy:
        store = open_store(_build_proxy_url(proxy))
        running = ProjectorRunner(log=log, store=store)
        beside = ProjectorRunner(log=log, store=direct, projection_signal=running.projection_signal)
        with capture_logs() as log_lines:
            async with running.run_in_background():
                await beside.wait_for_stories(story)
                for turn in range(1, 4):
                    run_at_next_commit(store, proxy.cut_connections)
                    await story.append_events(
                        build_submitted(turn, "a turn"), build_completed(turn, "and its reply")
                    )
                    await beside.wait_for_stories(story)
        await store.close()
    assert "projector-waiting" in [line["event"] for line in log_lines]
    assert await beside.read_rows() == await beside.rebuild_rows()


def _build_proxy_url(proxy: FaultProxy) -> str:
    place = proxy.url.rpartition("@")[2]
    return f"postgresql://postgres@{place}/{DATABASE}"
