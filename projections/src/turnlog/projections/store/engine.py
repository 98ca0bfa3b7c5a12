"""The database of the read models: SQLite in a file, or Postgres.

Both are used the same way: short transactions, one writer at a time, errors by who must act. An
unreachable database raises `Unavailable`, and so does a damaged one, with what to do: the log is
intact, so everything but the rows goes on. `is_refused_value` tells which values a database will
never store, because only their events may be quarantined. Statements are never logged with values,
because values can be people's texts.

An asynchronous connection to SQLite visits the driver's thread three or four times for each
statement. What the projector writes for each turn is therefore written by a synchronous connection,
in one visit to a thread for the whole transaction.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

import aiosqlite
from sqlalchemy import (
    URL,
    AdaptedConnection,
    Connection,
    Engine,
    create_engine,
    event,
    make_url,
    text,
)
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, SQLAlchemyError

from turnlog.events.errors import Refused, Unavailable
from turnlog.projections.store.async_engine import AsyncConnection, AsyncEngine, create_async_engine
from turnlog.projections.store.postgres_address import split_address

_POSTGRES_TIMEOUT: Final = 30.0
"""Maximum seconds for connecting to Postgres, or for a statement there."""
_SQLITE_LOCK_TIMEOUT: Final = 5.0
"""Seconds a SQLite writer waits for another one; this wait cannot be cancelled."""
_RETRY_PAUSE: Final = 0.01
"""Seconds between retries of operations for which SQLite does not wait itself."""
_REFUSED_STATES: Final = ("22", "23", "54")
"""SQLSTATE classes of Postgres: bad data, broken constraint, beyond a limit."""
_DAMAGE_CODES: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_DAMAGE_STATES: Final = ("XX001", "XX002")
"""SQLSTATEs of Postgres: damaged data, damaged index."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ReadModelStore:
    """An open database."""

    engine: AsyncEngine
    writer: Engine | None = None
    """Synchronous connections to the same file, if it is SQLite."""
    _damage: list[Unavailable] = field(default_factory=list[Unavailable], init=False)
    """Filled once damage is found; nothing is read or written from then on."""

    async def check_integrity(self) -> None:
        """Read all pages of a SQLite database; raise `Unavailable` if its structure is broken.

        A second for about a gigabyte. Postgres has checksums of its own.
        """
        if self.engine.dialect.name == "sqlite":
            async with self.open_reader() as connection:
                found = await connection.scalar(text("PRAGMA quick_check(1)"))
                if found != "ok":
                    raise self._note_damage(str(found))

    @asynccontextmanager
    async def open_reader(self) -> AsyncGenerator[AsyncConnection]:
        """Yield a connection whose statements all see the same snapshot."""
        async with self._map_errors(), self.engine.connect() as connection:
            if self.engine.dialect.name == "postgresql":
                await connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    @asynccontextmanager
    async def open_writer(self) -> AsyncGenerator[AsyncConnection]:
        """Yield a connection whose statements are committed together, or not at all."""
        async with self._map_errors(), self.engine.connect() as connection:
            writer = await connection.execution_options(turnlog_writes=True)
            async with writer.begin():
                yield writer

    async def run_writer(self, work: Callable[[Connection], Result]) -> Result:
        """Run `work` in one transaction, which is committed unless it raises.

        On SQLite it runs in a thread. A caller that is cancelled waits until it has ended, so the
        transaction may be committed.
        """
        if self.writer is None:
            async with self.open_writer() as connection:
                return await connection.run_sync(work)
        async with self._map_errors():
            return await _run_transaction(self.writer, work)

    async def discard_replaced_pages(self) -> None:
        """Empty the WAL of a SQLite database, which has pages as they were before.

        Deleted rows are overwritten in the pages themselves. For Postgres it does nothing: what an
        operator runs there stands in `docs/erasure.md`.
        """
        if self.engine.dialect.name == "sqlite":
            async with self._map_errors(), self.engine.connect() as connection:
                automatic = await connection.execution_options(isolation_level="AUTOCOMMIT")
                await automatic.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))

    async def close(self) -> None:
        """Close all connections."""
        if self.writer is not None:
            self.writer.dispose()
        await self.engine.dispose()

    @asynccontextmanager
    async def _map_errors(self) -> AsyncGenerator[None]:
        for found in self._damage:
            raise found
        try:
            yield
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            if _is_damage(error):
                raise self._note_damage(_get_first_line(error)) from error
            raise Unavailable("database", _get_first_line(error)) from error

    def _note_damage(self, detail: str) -> Unavailable:
        fix = "drop the database, create it again and start the projector"
        name = self.engine.url.database
        if self.engine.dialect.name == "sqlite":
            files = f"{name}, {name}-wal and {name}-shm"
            fix = f"stop everything that uses it, delete {files}, and start again"
        damage = Unavailable(
            "database", f"{name}: {detail}: {fix}; the rows are built again from the log"
        )
        self._damage.append(damage)
        return damage


def open_store(url: str) -> ReadModelStore:
    """Open `sqlite:///path`, or `postgresql://...` as libpq has it; it connects on first use."""
    try:
        target = make_url(url)
    except (ArgumentError, ValueError):
        raise _build_database_refusal("the address cannot be read") from None
    match target.drivername.partition("+")[0]:
        case "sqlite":
            return ReadModelStore(
                _create_sqlite_engine(target.set(drivername="sqlite+aiosqlite")),
                _create_sqlite_writer(target.set(drivername="sqlite+pysqlite")),
            )
        case "postgresql" | "postgres":
            address, arguments = split_address(target, _POSTGRES_TIMEOUT)
            return ReadModelStore(
                create_async_engine(address, connect_args=arguments, hide_parameters=True)
            )
        case other:
            raise _build_database_refusal(f"{other} is none")


def _build_database_refusal(detail: str) -> Refused:
    # Not repeated in the error: the address may contain a password.
    return Refused(
        "bad-database",
        f"no database for the read models: {detail}",
        field="database",
        fix="use sqlite:///path or postgresql://user@host/name",
    )


def _create_sqlite_engine(url: URL) -> AsyncEngine:
    # The hook below begins transactions; the driver itself begins them too late.
    options = {"timeout": _SQLITE_LOCK_TIMEOUT, "isolation_level": None}
    engine = create_async_engine(url, connect_args=options, hide_parameters=True)
    event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    event.listen(engine.sync_engine, "begin", _begin_sqlite)
    event.listen(engine.sync_engine, "invalidate", _unlock_sqlite)
    # Terminating stops the driver's thread. If it is cancelled twice, it stops while closing still
    # waits for that thread, which leaves a task that never ends. Closing does not have this
    # problem.
    engine.dialect.do_terminate = engine.dialect.do_close  # type: ignore[method-assign]
    return engine


def _create_sqlite_writer(url: URL) -> Engine:
    # Each transaction may run in another thread; never two at once on one connection.
    options = {
        "timeout": _SQLITE_LOCK_TIMEOUT,
        "isolation_level": None,
        "check_same_thread": False,
    }
    engine = create_engine(
        url,
        connect_args=options,
        hide_parameters=True,
        execution_options={"turnlog_writes": True},
    )
    event.listen(engine, "connect", _prepare_sqlite_writer)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite_writer(connection: sqlite3.Connection, record: object) -> None:
    # The file has its journal mode since the schema was created.
    del record
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")


async def _run_transaction(engine: Engine, work: Callable[[Connection], Result]) -> Result:
    def run() -> Result:
        with engine.begin() as connection:
            return work(connection)

    running = asyncio.get_running_loop().run_in_executor(None, run)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        # The thread uses a connection that the caller may close next.
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({running})
        raise


def _prepare_sqlite(connection: AdaptedConnection, record: object) -> None:
    del record
    connection.run_async(_set_sqlite_pragmas)


async def _set_sqlite_pragmas(connection: aiosqlite.Connection) -> None:
    # When several connections open a new file at once, SQLite lets one change the mode and refuses
    # the others immediately: its lock timeout does not apply here.
    for left in reversed(range(round(_SQLITE_LOCK_TIMEOUT / _RETRY_PAUSE))):
        try:
            await connection.execute("PRAGMA journal_mode = WAL")
            break
        except aiosqlite.OperationalError:
            if not left:
                raise
            await asyncio.sleep(_RETRY_PAUSE)
    await connection.execute("PRAGMA synchronous = FULL")
    await connection.execute("PRAGMA secure_delete = ON")


def _unlock_sqlite(connection: DBAPIConnection, record: object, error: object) -> None:
    # A cancelled statement is closed with its cursor open, and SQLite keeps the lock until the
    # garbage collector runs. A rollback releases it.
    del record, error
    connection.rollback()


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes the lock before it reads; taken later, SQLite would not wait for it.
    writes = connection.get_execution_options().get("turnlog_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _get_first_line(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return str(cause).partition("\n")[0] or type(error).__name__


def _is_damage(error: Exception) -> bool:
    cause = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", None)
    # An extended code has the primary one in its lowest byte.
    is_sqlite_damage = isinstance(code, int) and code & 0xFF in _DAMAGE_CODES
    return is_sqlite_damage or getattr(cause, "sqlstate", None) in _DAMAGE_STATES


def is_refused_value(error: Exception) -> bool:
    """Return whether the database will never accept these values, however often it is tried."""
    state = getattr(error.orig, "sqlstate", None) if isinstance(error, DBAPIError) else None
    if state is not None:
        return str(state).startswith(_REFUSED_STATES)
    return isinstance(error, OverflowError | UnicodeError | IntegrityError | DataError)
