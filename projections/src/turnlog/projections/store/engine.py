"""The database behind the read models: SQLite in a file, or Postgres.

Both are used alike: short transactions, one writer at a time, errors that say who must act. A
database out of reach is `Unavailable` and nothing more; which values a database refuses for good
is told by `refuses`, since only those may be set aside. Statements are never logged with their
values, because those are what people said.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import aiosqlite
from sqlalchemy import URL, AdaptedConnection, Connection, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from turnlog.events.errors import Refused, Unavailable

_PATIENCE: Final = 30.0
"""Seconds that connecting to Postgres, or a statement there, may take."""
_LOCKED: Final = 5.0
"""Seconds a writer waits for another one of SQLite; nothing can cut this wait short."""
_PAUSE: Final = 0.01
"""Seconds between two tries of what SQLite does not wait for."""
_REFUSED_STATES: Final = ("22", "23", "54")
"""SQLSTATE classes of Postgres: bad data, broken constraint, beyond a limit."""


@dataclass(frozen=True, slots=True)
class Store:
    """An open database."""

    engine: AsyncEngine

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[AsyncConnection]:
        """Give a connection whose statements all see the same moment."""
        async with _reachable(), self.engine.connect() as connection:
            if self.engine.dialect.name == "postgresql":
                await connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[AsyncConnection]:
        """Give a connection whose statements are kept together, or not at all."""
        async with _reachable(), self.engine.connect() as connection:
            writer = await connection.execution_options(turnlog_writes=True)
            async with writer.begin():
                yield writer

    async def close(self) -> None:
        """Let go of all connections."""
        await self.engine.dispose()


def open_store(url: str) -> Store:
    """Open `sqlite:///path` or `postgresql://...`; nothing is connected before the first use."""
    try:
        target = make_url(url)
    except (ArgumentError, ValueError):
        raise _no_database("the address cannot be read") from None
    match target.get_backend_name():
        case "sqlite":
            return Store(_sqlite(target.set(drivername="sqlite+aiosqlite")))
        case "postgresql":
            return Store(_postgres(target.set(drivername="postgresql+asyncpg")))
        case other:
            raise _no_database(f"{other} is none")


def _no_database(detail: str) -> Refused:
    # The address may hold a password: it is not repeated.
    return Refused(
        "bad-database",
        f"no database for the read models: {detail}",
        field="database",
        fix="use sqlite:///path or postgresql://user@host/name",
    )


def _sqlite(url: URL) -> AsyncEngine:
    # Transactions are begun by the hook below; the driver's own way begins them too late.
    options = {"timeout": _LOCKED, "isolation_level": None}
    engine = create_async_engine(url, connect_args=options, hide_parameters=True)
    event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    event.listen(engine.sync_engine, "begin", _begin_sqlite)
    event.listen(engine.sync_engine, "invalidate", _unlock_sqlite)
    # Terminating stops the driver's thread; cancelled twice, it stops while its own closing still
    # waits for that thread, and a task is left that never ends. Closing has no such moment.
    engine.dialect.do_terminate = engine.dialect.do_close  # type: ignore[method-assign]
    return engine


def _prepare_sqlite(connection: AdaptedConnection, record: object) -> None:
    del record
    connection.run_async(_prepared)


async def _prepared(connection: aiosqlite.Connection) -> None:
    # Of several that are first at a new file, SQLite lets one change its mode and refuses the
    # others at once: it waits for a writer's lock, and this is not one.
    for left in reversed(range(round(_LOCKED / _PAUSE))):
        try:
            await connection.execute("PRAGMA journal_mode = WAL")
            break
        except aiosqlite.OperationalError:
            if not left:
                raise
            await asyncio.sleep(_PAUSE)
    await connection.execute("PRAGMA synchronous = FULL")


def _unlock_sqlite(connection: DBAPIConnection, record: object, error: object) -> None:
    # A cancelled statement is closed with its cursor still open, and SQLite then holds the lock
    # until a garbage collection comes by. Rolled back, it holds nothing.
    del record, error
    connection.rollback()


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes the lock before it reads: one that took it later could not wait for it.
    writes = connection.get_execution_options().get("turnlog_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _postgres(url: URL) -> AsyncEngine:
    options = {"timeout": _PATIENCE, "command_timeout": _PATIENCE}
    return create_async_engine(url, connect_args=options, hide_parameters=True)


@asynccontextmanager
async def _reachable() -> AsyncGenerator[None]:
    try:
        yield
    except (SQLAlchemyError, OSError, TimeoutError) as error:
        raise Unavailable("database", _first_line(error)) from error


def _first_line(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return str(cause).partition("\n")[0] or type(error).__name__


def refuses(error: Exception) -> bool:
    """Tell whether a database will never take these values, however often it is asked."""
    state = getattr(error.orig, "sqlstate", None) if isinstance(error, DBAPIError) else None
    if state is not None:
        return str(state).startswith(_REFUSED_STATES)
    return isinstance(error, OverflowError | UnicodeError | IntegrityError | DataError)
