"""Migration of the database schema to the revision of this release.

One migration history serves both databases. A single row shows whether there is anything to do, so
a process with an up-to-date schema never imports alembic. The import takes half a second, and so it
runs in a thread, before the database is locked. A schema of a later release is refused.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Final

from sqlalchemy import Connection, inspect, text

from turnlog.events.errors import LaterRelease
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.engine import ReadModelStore

SCHEMA_REVISION: Final = "0011"
"""The latest revision; a test compares it with the migrations."""

_MIGRATION_SCRIPTS: Final = "turnlog.projections.store:migrations"

_ALEMBIC_MODULES: Final = ("alembic.command", "alembic.config")

_MIGRATION_LOCK: Final = 0x7475726E
"""An arbitrary number, equal in every release, so that two processes never migrate at once."""


async def prepare_schema(store: ReadModelStore) -> None:
    """Bring the schema up to date; raises `LaterRelease` if a later release created it."""
    if await read_schema_revision(store) == SCHEMA_REVISION:
        return
    for name in _ALEMBIC_MODULES:
        await asyncio.to_thread(import_module, name)
    async with store.open_writer() as connection:
        await _lock_database(connection)
        if await connection.run_sync(_read_revision) != SCHEMA_REVISION:
            await connection.run_sync(_run_migrations)


async def read_schema_revision(store: ReadModelStore) -> str | None:
    """Return the revision of a database's schema, or None if it has none."""
    async with store.open_reader() as connection:
        return await connection.run_sync(_read_revision)


async def _lock_database(connection: AsyncConnection) -> None:
    # SQLite has only one writer anyway.
    if connection.dialect.name == "postgresql":
        await connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))


def _read_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


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
