"""The schema is created by itself on both databases, whichever process starts first."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from turnlog.events.errors import Corrupt, Refused, Unavailable
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.schema.read_model_tables import METADATA
from turnlog.projections.store.schema.schema_migration import (
    SCHEMA_REVISION,
    prepare_schema,
    read_schema_revision,
)


def _list_differences(connection: Connection) -> list[object]:
    return list(compare_metadata(MigrationContext.configure(connection), METADATA))


async def test_migrations_create_the_same_tables_as_a_new_database(database_url: str) -> None:
    store = open_store(database_url)
    async with store.open_writer() as connection:
        await connection.run_sync(_run_migrations)
    async with store.open_reader() as connection:
        assert await connection.run_sync(_list_differences) == []
    assert await read_schema_revision(store) == SCHEMA_REVISION
    await store.close()


def _run_migrations(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", "turnlog.projections.store:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def test_revision_of_this_release_is_the_last_of_the_migrations() -> None:
    config = Config()
    config.set_main_option("script_location", "turnlog.projections.store:migrations")
    assert ScriptDirectory.from_config(config).get_heads() == [SCHEMA_REVISION]


async def test_processes_that_start_together_create_the_tables_once(database_url: str) -> None:
    stores = [open_store(database_url) for _ in range(4)]
    await asyncio.gather(*(prepare_schema(store) for store in stores))
    async with stores[0].open_reader() as connection:
        assert await connection.scalar(text("SELECT count(*) FROM alembic_version")) == 1
        assert await connection.run_sync(_list_differences) == []
    for store in stores:
        await store.close()


async def test_opening_waits_for_a_file_that_another_process_is_creating(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    store = open_store(f"sqlite:///{path}")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        looking = asyncio.create_task(_assert_wal_mode(store))
        done, _ = await asyncio.wait({looking}, timeout=0.2)
        assert not done
        other.execute("ROLLBACK")
    await looking
    await store.close()


async def _assert_wal_mode(store: ReadModelStore) -> None:
    async with store.open_reader() as connection:
        assert await connection.scalar(text("PRAGMA journal_mode")) == "wal"


def test_alembic_is_imported_only_for_a_database_of_an_earlier_release(
    database_url: str,
) -> None:
    program = """
import asyncio, sys
from turnlog.projections.store.engine import open_store
from turnlog.projections.store.schema.schema_migration import prepare_schema
async def main():
    store = open_store(sys.argv[1])
    await prepare_schema(store)
    await prepare_schema(store)
    await store.close()
asyncio.run(main())
print("alembic" in sys.modules)
"""
    command = [sys.executable, "-c", program, database_url]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "False"


async def test_schema_of_a_later_release_is_refused(store: ReadModelStore) -> None:
    async with store.open_writer() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(Corrupt, match="later release"):
        await prepare_schema(store)


async def test_unreachable_database_raises_unavailable_without_its_password() -> None:
    store = open_store("postgresql://me:secret@127.0.0.1:9/none")
    with pytest.raises(Unavailable) as unavailable:
        await prepare_schema(store)
    assert "secret" not in str(unavailable.value)
    await store.close()


@pytest.mark.parametrize("url", ["mysql://host/name", "nonsense", "postgresql://host:port/name"])
def test_unsupported_databases_are_refused_with_a_supported_url(url: str) -> None:
    with pytest.raises(Refused) as refused:
        open_store(url)
    assert refused.value.field == "database"
    assert "sqlite:///" in refused.value.fix


async def test_sqlite_is_synced_to_disk_at_every_commit(tmp_path: object) -> None:
    store = open_store(f"sqlite:///{tmp_path}/rows.db")
    async with store.open_reader() as connection:
        assert await connection.scalar(text("PRAGMA journal_mode")) == "wal"
        assert await connection.scalar(text("PRAGMA synchronous")) == 2
    await store.close()


MIGRATION = """
import asyncio, sys, threading
from turnlog.projections.store.engine import open_store
from sqlalchemy import text
from turnlog.events.errors import LaterRelease
from turnlog.projections.store.schema.schema_migration import prepare_schema

def audit(event, arguments):
    if event == "import" and threading.current_thread() is threading.main_thread():
        imported.add(str(arguments[0]).partition(".")[0])

async def migrate():
    store = open_store("sqlite:///" + sys.argv[1])
    await prepare_schema(store)
    async with store.open_writer() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    try:
        await prepare_schema(store)
    except LaterRelease:
        await store.close()

imported = set()
sys.addaudithook(audit)
asyncio.run(migrate())
assert "alembic" in sys.modules
assert not imported & {"alembic", "mako", "pygments"}, imported
"""


def test_migration_imports_its_modules_outside_the_event_loop(tmp_path: Path) -> None:
    words = (sys.executable, "-c", MIGRATION, str(tmp_path / "rows.db"))
    ran = subprocess.run(words, check=False, capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()
