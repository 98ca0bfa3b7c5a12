"""Postgres that stops, is killed or is cut off in a commit: each event is folded once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from sqlalchemy import event
from structlog.testing import capture_logs

from tests.parts.fault_proxy import FaultProxy
from tests.parts.postgres import PostgresServer
from tests.projections.store.histories import Story, completed, opened, submitted
from tests.services.projector.running import LONG, Running
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.projections.store.write import projection_positions

pytestmark = pytest.mark.promise("P10")

DATABASE = "turnlog"


@pytest.fixture
async def direct(own_postgres: PostgresServer) -> AsyncIterator[ReadModelStore]:
    await own_postgres.execute(f"CREATE DATABASE {DATABASE}")
    store = open_store(own_postgres.url(DATABASE))
    await prepare_schema(store)
    yield store
    await store.close()


@pytest.mark.parametrize("end", [PostgresServer.stop, PostgresServer.kill])
async def test_postgres_that_ends_and_comes_back_has_every_event_once(
    own_postgres: PostgresServer, direct: ReadModelStore, end: Callable[[PostgresServer], None]
) -> None:
    log = MemoryLog()
    story, running = Story(log), Running(log, direct)
    await story.tell(opened())
    with capture_logs() as said:
        async with running.beside() as task:
            for turn in range(1, 4):
                await running.caught_up(story)
                await asyncio.to_thread(end, own_postgres)
                await story.tell(submitted(turn, "while it is down"), completed(turn, "so it is"))
                while len([e for e in said if e["event"] == "projector-waits"]) < turn:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(own_postgres.start)
            await running.caught_up(story)
            assert not task.done()
    assert await running.rows() == await running.rebuilt()


async def position(store: ReadModelStore) -> int:
    async with store.open_reader() as connection:
        live = await projection_positions.read_active_position(connection)
    return live.position if live else 0


def at_next_commit(store: ReadModelStore, act: Callable[[], None]) -> None:
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


async def test_a_connection_cut_between_commit_and_answer_makes_nothing_twice(
    own_postgres: PostgresServer, direct: ReadModelStore
) -> None:
    log = MemoryLog()
    story = Story(log)
    await story.tell(opened())
    async with FaultProxy(f"tcp://127.0.0.1:{own_postgres.port}").running() as proxy:
        store = open_store(_through(proxy))
        running = Running(log, store)
        beside = Running(log, direct, bell=running.bell)
        async with running.beside():
            await beside.caught_up(story)
            for turn in range(1, 4):
                at_next_commit(store, proxy.deafen)
                await story.tell(submitted(turn, "a turn"), completed(turn, "and its reply"))
                async with asyncio.timeout(LONG):
                    while await position(direct) < len(log.stored):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                proxy.heal()
            await beside.caught_up(story)
        await store.close()
    assert await position(direct) == len(log.stored)
    assert await beside.rows() == await beside.rebuilt()


async def test_a_connection_cut_before_the_commit_arrives_loses_nothing(
    own_postgres: PostgresServer, direct: ReadModelStore
) -> None:
    log = MemoryLog()
    story = Story(log)
    await story.tell(opened())
    async with FaultProxy(f"tcp://127.0.0.1:{own_postgres.port}").running() as proxy:
        store = open_store(_through(proxy))
        running = Running(log, store)
        beside = Running(log, direct, bell=running.bell)
        with capture_logs() as said:
            async with running.beside():
                await beside.caught_up(story)
                for turn in range(1, 4):
                    at_next_commit(store, proxy.cut)
                    await story.tell(submitted(turn, "a turn"), completed(turn, "and its reply"))
                    await beside.caught_up(story)
        await store.close()
    assert "projector-waits" in [line["event"] for line in said]
    assert await beside.rows() == await beside.rebuilt()


def _through(proxy: FaultProxy) -> str:
    place = proxy.url.rpartition("@")[2]
    return f"postgresql://postgres@{place}/{DATABASE}"
