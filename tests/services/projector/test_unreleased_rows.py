"""An upgrade from a revision before the first release needs nobody and loses no position."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import text

from tests.faults.suite_extent import RUN_EVERYTHING
from tests.projections.store.unreleased_databases import (
    append_stories,
    create_unreleased_schema,
    insert_position,
    insert_unreleased_rows,
)
from tests.services.projector.projector_runner import TEST_TIMEOUT_SECONDS, ProjectorRunner
from turnlog.events.errors import LogRolledBack
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.read.read_your_writes import read_folded_sequence
from turnlog.projections.store.schema.read_model_tables import ATTEMPTS, SESSIONS
from turnlog.projections.store.schema.schema_migration import UNRELEASED_REVISIONS, prepare_schema
from turnlog.projections.store.write.projection_positions import (
    SESSIONS_VERSION,
    read_active_position,
)

PHASE = [column.name for column in SESSIONS.c if column.name != "build"].index("phase")


CACHE_WRITES = [column.name for column in ATTEMPTS.c if column.name != "build"].index(
    "cache_write_tokens"
)

POSTGRES_REVISIONS = UNRELEASED_REVISIONS if RUN_EVERYTHING else UNRELEASED_REVISIONS[::10]
"""Those that the suite rebuilds from on Postgres too; it migrates there from each of them."""

LATER_COLUMNS = {"child_turns": 5, "turn_votes": 4, "turns": 7}
"""Tables with columns of a later revision, and how many columns they had before."""


@pytest.fixture
async def log() -> MemoryLog:
    stored = MemoryLog()
    await append_stories(stored)
    return stored


async def wait_until_rebuilt(running: ProjectorRunner) -> None:
    """Wait until readers use rows of this release, and those before them are cleared."""
    async with asyncio.timeout(TEST_TIMEOUT_SECONDS):
        while True:
            async with running.store.open_reader() as connection:
                live = await read_active_position(connection)
                builds = await connection.scalar(text("SELECT count(*) FROM projections"))
            if live and live.version == SESSIONS_VERSION and builds == 1:
                return
            await asyncio.sleep(0.01)


@pytest.mark.slow("rows are built many times over, on both databases")
@pytest.mark.parametrize(
    ("database_url", "revision"),
    [
        *(("sqlite", revision) for revision in UNRELEASED_REVISIONS),
        *(("postgres", revision) for revision in POSTGRES_REVISIONS),
    ],
    indirect=["database_url"],
)
async def test_projector_rebuilds_the_rows_of_every_unreleased_revision(
    database_url: str, log: MemoryLog, revision: str
) -> None:
    store = open_store(database_url)
    await create_unreleased_schema(store, revision)
    await insert_position(store, log, version=1)
    running = ProjectorRunner(log=log, store=store)
    async with running.run_in_background():
        await wait_until_rebuilt(running)
    upgraded = await running.read_rows()
    assert len(upgraded["sessions"]) == 2
    assert upgraded == await running.rebuild_rows()
    await store.close()


@pytest.mark.promise("P11")
async def test_readers_keep_rows_of_the_last_unreleased_revision_until_the_rebuild(
    database_url: str, log: MemoryLog
) -> None:
    store = open_store(database_url)
    await create_unreleased_schema(store, "0011")
    await insert_unreleased_rows(store)
    await insert_position(store, log, version=7)
    await prepare_schema(store)
    running = ProjectorRunner(log=log, store=store)
    before = await running.read_rows()
    async with running.run_in_background():
        while not await is_rebuilt(store):
            assert await read_folded_sequence(store, "t", "first") == 15
        await wait_until_rebuilt(running)
    after = await running.read_rows()
    # A session's phase was a row of another table; nothing else differs.
    assert [row[PHASE] for row in before.pop("sessions")] == [None, None]
    assert [row[PHASE] for row in after.pop("sessions")] == ["two", None]
    # The index of uses and the pinned versions came later.
    for name in ("prompt_sources", "event_texts", "pinned_blueprints"):
        assert (before.pop(name), bool(after.pop(name))) == ([], True)
    # So did the tokens that a provider put into its cache, in the midst of the columns.
    earlier, later = before.pop("attempts"), after.pop("attempts")
    assert [row[CACHE_WRITES] for row in earlier] == [None] * len(later)
    rows = [
        [(*row[:CACHE_WRITES], *row[CACHE_WRITES + 1 :]) for row in each]
        for each in (earlier, later)
    ]
    assert rows[0] == rows[1]
    for name, columns in LATER_COLUMNS.items():
        earlier, later = before.pop(name), after.pop(name)
        assert earlier
        assert [row[:columns] for row in earlier] == [row[:columns] for row in later]
    assert before == after
    await store.close()


async def is_rebuilt(store: ReadModelStore) -> bool:
    async with store.open_reader() as connection:
        live = await read_active_position(connection)
    return live is not None and live.version == SESSIONS_VERSION


@pytest.mark.parametrize("revision", ["0001", "0011"])
async def test_log_truncated_before_an_upgrade_is_not_used_for_a_rebuild(
    database_url: str, log: MemoryLog, revision: str
) -> None:
    store = open_store(database_url)
    await create_unreleased_schema(store, revision)
    await insert_position(store, log, version=1)
    log.stored.pop()
    running = ProjectorRunner(log=log, store=store)
    with pytest.raises(LogRolledBack, match="turnlog rebuild"):
        await asyncio.wait_for(running.run_projector(), TEST_TIMEOUT_SECONDS)
    async with store.open_reader() as connection:
        live = await read_active_position(connection)
    assert live is not None
    assert (live.version, live.position) == (1, len(log.stored) + 1)
    await store.close()
