"""SQLite that is locked or full: the projector waits, says so and loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import event, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from structlog.testing import capture_logs
from structlog.typing import EventDict

from tests.projections.store.session_histories import (
    StoredSession,
    build_completed,
    build_opened,
    build_submitted,
)
from tests.services.projector.projector_runner import (
    TEST_TIMEOUT_SECONDS,
    ProjectorRunner,
    list_engines,
)
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.schema.schema_migration import prepare_schema

pytestmark = pytest.mark.promise("P10")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ReadModelStore]:
    opened = open_store(f"sqlite:///{tmp_path / 'rows.db'}")
    await prepare_schema(opened)
    yield opened
    await opened.close()


@pytest.fixture
async def locker(tmp_path: Path) -> AsyncIterator[ReadModelStore]:
    """Another process at the same database."""
    opened = open_store(f"sqlite:///{tmp_path / 'rows.db'}")
    yield opened
    await opened.close()


async def wait_for_warning(log_lines: list[EventDict], reason: str) -> None:
    """Wait until the projector logs that it waits, and why."""
    async with asyncio.timeout(TEST_TIMEOUT_SECONDS):
        while not any(line["event"] == "projector-waiting" for line in log_lines):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert (
        reason in next(line for line in log_lines if line["event"] == "projector-waiting")["detail"]
    )


@pytest.mark.slow("rows are built many times over, on both databases")
async def test_projector_waits_for_a_locked_sqlite_database_with_a_warning(
    store: ReadModelStore, locker: ReadModelStore
) -> None:
    log = MemoryLog()
    story, running = StoredSession(log=log), ProjectorRunner(log=log, store=store)
    await story.append_events(build_opened())
    with capture_logs() as log_lines:
        async with running.run_in_background() as task:
            await running.wait_for_stories(story)
            async with locker.open_writer() as connection:
                await connection.execute(text("UPDATE projections SET version = version"))
                await story.append_events(build_submitted(1, "one"), build_completed(1, "first"))
                await wait_for_warning(log_lines, "locked")
                assert not task.done()
            await running.wait_for_stories(story)
    assert await running.read_rows() == await running.rebuild_rows()


async def test_projector_waits_for_a_full_disk_with_a_warning_and_continues(
    store: ReadModelStore,
) -> None:
    log = MemoryLog()
    story, running = StoredSession(log=log), ProjectorRunner(log=log, store=store)
    await story.append_events(build_opened())
    pages = [0]

    def limit(connection: DBAPIConnection, *_: object) -> None:
        connection.cursor().execute(f"PRAGMA max_page_count = {pages[0]}")

    async with store.open_reader() as connection:
        pages[0] = int(await connection.scalar(text("PRAGMA page_count")) or 0) + 4
    for engine in list_engines(store):
        event.listen(engine, "checkout", limit)
    with capture_logs() as log_lines:
        async with running.run_in_background() as task:
            await running.wait_for_stories(story)
            for turn in range(1, 400):
                await story.append_events(
                    build_submitted(turn, "a turn"), build_completed(turn, "and its reply")
                )
            await wait_for_warning(log_lines, "full")
            assert not task.done()
            pages[0] = 1_000_000
            await running.wait_for_stories(story)
    assert len((await running.read_rows())["turns"]) == 399
    assert await running.read_rows() == await running.rebuild_rows()
