"""The schema of the database: created, brought up to date, or refused.

A single row names the revision of a schema, so a process that finds its own has nothing to do. A
new database gets the tables of this release at once. A schema of an earlier release is migrated by
alembic, whose import takes half a second and so runs in a thread, before the database is locked. A
schema of a later release is refused.

Eleven revisions were never part of a release. A database of one of them gets the tables of this
release too. It keeps the rows of a projection if they have every value that this release requires,
so that readers have them until the projector has built others from the log. It always keeps the
positions: the log cannot tell how far it once reached, and the projector compares that first.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from sqlalchemy import Column, Connection, MetaData, String, Table, insert, inspect, text, update
from sqlalchemy.schema import CreateColumn

from turnlog.events.errors import LaterRelease
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.migrations import versions
from turnlog.projections.store.schema.hour_tables import HOUR_TABLES
from turnlog.projections.store.schema.read_model_tables import (
    KNOWLEDGE_ENTRIES,
    KNOWLEDGE_HISTORIES,
    KNOWLEDGE_INDEX,
    KNOWLEDGE_TEXTS,
    LIBRARIES,
    METADATA,
    ROW_TABLES,
    SEGMENTS,
)

SCHEMA_REVISION: Final = max(script.name[1:5] for script in iter_modules(versions.__path__))
"""The latest revision. The name of a script begins with its own, as in `r0012_read_models`."""

FIRST_REVISION: Final = "0012"
"""The revision of the first release."""

UNRELEASED_REVISIONS: Final = tuple(f"{number:04}" for number in range(1, int(FIRST_REVISION)))
"""The revisions before the first release."""

_FORMER_TABLES: Final = ("redactions", "phases", "knowledge_vectors", "knowledge_words")
"""Tables of unreleased revisions that this release does not have."""

PROJECTED_TABLES: Final = (
    (*ROW_TABLES, *HOUR_TABLES),
    (LIBRARIES, SEGMENTS),
    (KNOWLEDGE_INDEX, KNOWLEDGE_HISTORIES, KNOWLEDGE_TEXTS, KNOWLEDGE_ENTRIES),
)
"""Every table with rows, by the projection that fills it."""

_MIGRATION_SCRIPTS: Final = "turnlog.projections.store:migrations"

_ALEMBIC_MODULES: Final = ("alembic.command", "alembic.config")

_MIGRATION_LOCK: Final = 0x7475726E
"""An arbitrary number, equal in every release, so that two processes never migrate at once."""

_VERSIONS: Final = Table(
    "alembic_version", MetaData(), Column("version_num", String(32), primary_key=True)
)
"""Alembic's own table, with one row."""


async def prepare_schema(store: ReadModelStore) -> None:
    """Bring the schema up to date; raises `LaterRelease` if a later release created it."""
    revision = await read_schema_revision(store)
    if revision == SCHEMA_REVISION:
        return
    if revision is not None and revision not in UNRELEASED_REVISIONS:
        for name in _ALEMBIC_MODULES:
            await asyncio.to_thread(import_module, name)
    async with store.open_writer() as connection:
        await _lock_database(connection)
        await connection.run_sync(_update_schema)


async def read_schema_revision(store: ReadModelStore) -> str | None:
    """Return the revision of a database's schema, or None if it has none."""
    async with store.open_reader() as connection:
        return await connection.run_sync(_read_revision)


async def _lock_database(connection: AsyncConnection) -> None:
    # SQLite has only one writer anyway.
    if connection.dialect.name == "postgresql":
        await connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))


def _read_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(_VERSIONS.name):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _update_schema(connection: Connection) -> None:
    revision = _read_revision(connection)
    if revision is None:
        # A table of such a name belongs to another program then, so creating it fails.
        METADATA.create_all(connection, checkfirst=False)
        _VERSIONS.create(connection)
        connection.execute(insert(_VERSIONS).values(version_num=SCHEMA_REVISION))
    elif revision in UNRELEASED_REVISIONS:
        _convert_unreleased_tables(connection)
        METADATA.create_all(connection)
        connection.execute(update(_VERSIONS).values(version_num=SCHEMA_REVISION))
    elif revision != SCHEMA_REVISION:
        _run_migrations(connection)


def _convert_unreleased_tables(connection: Connection) -> None:
    """Keep the rows of each projection that this release can read, and drop the others' tables."""
    found = inspect(connection)
    former = {
        name: frozenset(column["name"] for column in found.get_columns(name))
        for name in METADATA.tables
        if found.has_table(name)
    }
    for tables in PROJECTED_TABLES:
        present = [table for table in tables if table.name in former]
        fits = all(_has_required_columns(table, former[table.name]) for table in present)
        for table in present:
            if fits:
                _change_columns(connection, table, former[table.name])
            else:
                table.drop(connection)
    _drop_former_tables(connection)


def _has_required_columns(table: Table, names: frozenset[str]) -> bool:
    return all(
        column.nullable or column.server_default or column.name in names for column in table.c
    )


def _change_columns(connection: Connection, table: Table, names: frozenset[str]) -> None:
    for column in table.c:
        if column.name not in names:
            added = CreateColumn(column).compile(dialect=connection.dialect)
            connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {added}"))
    for name in sorted(names - set(table.c.keys())):
        connection.execute(text(f'ALTER TABLE {table.name} DROP COLUMN "{name}"'))
    for index in table.indexes:
        index.create(connection, checkfirst=True)


def _drop_former_tables(connection: Connection) -> None:
    names = list(_FORMER_TABLES)
    if connection.dialect.name == "sqlite":
        # An index of words for each tenant. SQLite drops the tables within them too.
        virtual = text("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%'")
        names += connection.scalars(virtual)
    for name in names:
        connection.execute(text(f'DROP TABLE IF EXISTS "{name}"'))


def _run_migrations(connection: Connection) -> None:
    # Only a migration should pay for the import; `prepare_schema` made it already.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", _MIGRATION_SCRIPTS)
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, SCHEMA_REVISION)
    except CommandError as error:
        raise LaterRelease("database schema", f"made by a later release ({error})") from error
