"""Projection positions: how far a build of the rows is folded, and from which log.

A position is moved by compare-and-set, in the transaction that writes its rows. A process that
finds it moved writes nothing and reads it again. So two projectors, a rebuild or a commit with
unknown outcome never fold an event twice.

A rebuild fills a new build from the start of the log, beside the one that readers use, and then
switches to it in one transaction. The old rows are cleared a few sessions at a time, so that other
writers do not wait long. An interrupted build is harmless; the next rebuild clears it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import (
    Connection,
    Delete,
    Row,
    Table,
    and_,
    delete,
    func,
    insert,
    select,
    true,
    tuple_,
    update,
)

from turnlog.events.content import Digest
from turnlog.events.store.ports import LogIdentity
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.schema.hour_tables import HOUR_TABLES
from turnlog.projections.store.schema.read_model_tables import PROJECTIONS, ROW_TABLES, SESSIONS
from turnlog.projections.store.schema.schema_migration import FIRST_REVISION, SCHEMA_REVISION

SESSIONS_PROJECTION: Final = "sessions"
"""The name of this projection; it never changes."""

_VALUE_CHANGES: Final = 8
"""Incremented whenever the same events give other values in the same columns."""

SESSIONS_VERSION: Final = _VALUE_CHANGES + int(SCHEMA_REVISION) - int(FIRST_REVISION)
"""Older rows are rebuilt: only the events can fill what a later revision of the schema adds."""

_ABANDONED: Final = -1
"""The position of an abandoned build; it cannot be moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionPosition:
    """A build of the rows, the log it is folded from, and the last event folded."""

    build: int
    version: int
    is_active: bool
    """Whether readers use this build."""
    log: LogIdentity
    position: int = 0
    """Stream sequence of that event; 0 before the first."""
    hash: Digest | None = None
    """Digest of its stored bytes."""


_SESSIONS_ROWS: Final = PROJECTIONS.c.name == SESSIONS_PROJECTION

_ACTIVE_ROW: Final = and_(_SESSIONS_ROWS, PROJECTIONS.c.active == true())


async def read_active_position(connection: AsyncConnection) -> ProjectionPosition | None:
    """Return the position of the build that readers use; None before the first start."""
    row = (await connection.execute(select(PROJECTIONS).where(_ACTIVE_ROW))).one_or_none()
    return _build_position(row) if row else None


def _build_position(row: Row[*tuple[object, ...]]) -> ProjectionPosition:
    log = LogIdentity(row.stream, row.created)
    return ProjectionPosition(
        build=row.build,
        version=row.version,
        is_active=row.active,
        log=log,
        position=row.position,
        hash=row.hash,
    )


async def find_unfinished_build(
    connection: AsyncConnection, log: LogIdentity, *, above: int
) -> ProjectionPosition | None:
    """Return the newest unfinished build above `above` that this release began on this log."""
    condition = and_(
        _SESSIONS_ROWS,
        PROJECTIONS.c.build > above,
        PROJECTIONS.c.version == SESSIONS_VERSION,
        PROJECTIONS.c.stream == log.stream,
        PROJECTIONS.c.created == log.created,
        PROJECTIONS.c.position >= 0,
    )
    newest = select(PROJECTIONS).where(condition).order_by(PROJECTIONS.c.build.desc()).limit(1)
    row = (await connection.execute(newest)).one_or_none()
    return _build_position(row) if row else None


async def lock_active_position(connection: AsyncConnection) -> ProjectionPosition | None:
    """Return the active position, and lock it until the transaction ends."""
    await connection.execute(update(PROJECTIONS).where(_ACTIVE_ROW).values(active=True))
    return await read_active_position(connection)


async def lock_positions(connection: AsyncConnection) -> list[ProjectionPosition]:
    """Return the positions of all builds that are not abandoned, locked until the end."""
    await connection.execute(
        update(PROJECTIONS).where(_SESSIONS_ROWS).values(active=PROJECTIONS.c.active)
    )
    found = select(PROJECTIONS).where(_SESSIONS_ROWS, PROJECTIONS.c.position >= 0)
    return [_build_position(row) for row in await connection.execute(found)]


async def begin_build(
    connection: AsyncConnection, log: LogIdentity, *, is_active: bool
) -> ProjectionPosition:
    """Begin a build from the start of the log; readers use it at once only if `is_active`."""
    highest = await connection.scalar(select(func.max(PROJECTIONS.c.build)).where(_SESSIONS_ROWS))
    begun = ProjectionPosition(
        build=(highest or 0) + 1, version=SESSIONS_VERSION, is_active=is_active, log=log
    )
    row = insert(PROJECTIONS).values(
        name=SESSIONS_PROJECTION,
        build=begun.build,
        version=begun.version,
        stream=log.stream,
        created=log.created,
        position=begun.position,
        active=begun.is_active,
    )
    await connection.execute(row)
    return begun


def move_position(
    connection: Connection, before: ProjectionPosition, position: int, digest: Digest | None
) -> ProjectionPosition | None:
    """Move a position forward; None if it differs from `before` by now."""
    condition = and_(
        _SESSIONS_ROWS,
        PROJECTIONS.c.build == before.build,
        PROJECTIONS.c.active == before.is_active,
        PROJECTIONS.c.position == before.position,
    )
    row = update(PROJECTIONS).where(condition).values(position=position, hash=digest)
    after = replace(before, position=position, hash=digest)
    return after if connection.execute(row).rowcount else None


async def switch_to_build(
    connection: AsyncConnection, before: ProjectionPosition
) -> ProjectionPosition | None:
    """Make readers use a build from now on; None if its position differs from `before` by now."""
    unchanged = await connection.run_sync(move_position, before, before.position, before.hash)
    if unchanged is None:
        return None
    condition = and_(_SESSIONS_ROWS, PROJECTIONS.c.build == before.build)
    await connection.execute(update(PROJECTIONS).where(_ACTIVE_ROW).values(active=False))
    await connection.execute(update(PROJECTIONS).where(condition).values(active=True))
    return replace(before, is_active=True)


async def claim_hidden_builds(
    connection: AsyncConnection, *, below: int | None = None
) -> list[int]:
    """Abandon the builds that readers do not use, stopping their writers; return their numbers."""
    hidden = and_(_SESSIONS_ROWS, PROJECTIONS.c.active != true())
    if below is not None:
        hidden = and_(hidden, PROJECTIONS.c.build < below)
    await connection.execute(update(PROJECTIONS).where(hidden).values(position=_ABANDONED))
    builds = select(PROJECTIONS.c.build).where(hidden).order_by(PROJECTIONS.c.build)
    return list((await connection.scalars(builds)).all())


async def delete_build(connection: AsyncConnection, build: int) -> None:
    """Delete a build whose rows are deleted; its number may be used again afterwards."""
    await connection.execute(
        delete(PROJECTIONS).where(_SESSIONS_ROWS, PROJECTIONS.c.build == build)
    )


_CLEAR_BATCH: Final = 50
"""Sessions cleared in one transaction, however many turns they have."""


async def clear_hidden_builds(store: ReadModelStore, *, below: int | None = None) -> None:
    """Clear every build that readers do not use, or only those below build number `below`."""
    async with store.open_writer() as connection:
        builds = await claim_hidden_builds(connection, below=below)
    for build in builds:
        while await _clear_sessions(store, build):
            pass
        async with store.open_writer() as connection:
            # Sums by the hour, and rows without a session row: events that were quarantined before
            # their session opened.
            for table in (*ROW_TABLES, *HOUR_TABLES):
                await connection.execute(delete(table).where(table.c.build == build))
            await delete_build(connection, build)


async def _clear_sessions(store: ReadModelStore, build: int) -> bool:
    async with store.open_writer() as connection:
        owner_query = select(SESSIONS.c.tenant, SESSIONS.c.session).where(SESSIONS.c.build == build)
        owners = [tuple(row) for row in await connection.execute(owner_query.limit(_CLEAR_BATCH))]
        for table in ROW_TABLES:
            await connection.execute(_build_delete(table, build, owners))
    return bool(owners)


def _build_delete(table: Table, build: int, owners: list[tuple[str, str]]) -> Delete:
    mine = tuple_(table.c.tenant, table.c.session).in_(owners)
    return delete(table).where(table.c.build == build, mine)
