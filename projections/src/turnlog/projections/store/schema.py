"""The schema: brought to this release's revision before anything reads or writes.

One history serves both databases. A look at one row tells whether there is anything to do, so a
process that finds the schema up to date never imports alembic. A schema of a later release is
refused, not guessed at.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.events.errors import Corrupt
from turnlog.projections.store.engine import Store

REVISION: Final = "0006"
"""The latest revision; a test holds it against the migrations."""
_SCRIPTS: Final = "turnlog.projections.store:migrations"
_LOCK: Final = 0x7475726E
"""Any number, the same in every release: two processes must not migrate one database at once."""


async def prepare(store: Store) -> None:
    """Bring the schema up to date; raises `Corrupt` when a later release made it."""
    async with store.reading() as connection:
        if await connection.run_sync(_revision) == REVISION:
            return
    async with store.writing() as connection:
        await _locked(connection)
        if await connection.run_sync(_revision) != REVISION:
            await connection.run_sync(_migrated)


async def _locked(connection: AsyncConnection) -> None:
    # SQLite's writer is alone as it is.
    if connection.dialect.name == "postgresql":
        await connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _migrated(connection: Connection) -> None:
    # Costs time that only a migration should pay.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", _SCRIPTS)
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, REVISION)
    except CommandError as error:
        raise Corrupt("database schema", f"made by a later release ({error})") from error
