"""The builds of the knowledge index: which one answers searches, and which one is being filled.

A build has one embedder. The first one is active at once. A later one is filled beside the active
one and takes its place in the transaction that completes it, so that searches go on meanwhile. The
rows of a former build are cleared afterwards, a few at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Row,
    and_,
    delete,
    func,
    insert,
    select,
    text,
    true,
    update,
)

from turnlog.events.content import Digest
from turnlog.events.store.ports import LogIdentity
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.schema.read_model_tables import (
    KNOWLEDGE_ENTRIES,
    KNOWLEDGE_HISTORIES,
    KNOWLEDGE_INDEX,
    KNOWLEDGE_TEXTS,
    PROJECTIONS,
)

KNOWLEDGE_PROJECTION: Final = "knowledge"
"""The name of this projection; it never changes."""

KNOWLEDGE_VERSION: Final = 3
"""Incremented whenever the same events give another index; an older one is then rebuilt."""

DAMAGED_VERSION: Final = 0
"""The version of a build whose rows are damaged; like any other version it is built again."""

_BUILD_LOCK: Final = 0x6B6E6F77
"""An arbitrary number, equal in every release."""

_ABANDONED: Final = -1
"""The position of a build that was replaced or abandoned; it cannot be moved."""

_CLEAR_BATCH: Final = 2_000
"""Entries cleared in one transaction, so that other writers do not wait long."""

_KNOWLEDGE_ROWS: Final = PROJECTIONS.c.name == KNOWLEDGE_PROJECTION

_ACTIVE_ROW: Final = and_(_KNOWLEDGE_ROWS, PROJECTIONS.c.active == true())

ACTIVE_KNOWLEDGE_BUILD: Final = select(PROJECTIONS.c.build).where(_ACTIVE_ROW).scalar_subquery()
"""The active build, looked up within the statement that reads its rows."""


@dataclass(frozen=True, slots=True)
class EmbedderVersion:
    """The embedder of a build."""

    name: str
    """With the version of its model."""
    setting: str
    """What names it in the settings of a projector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgePosition:
    """How far a build is folded, from which log, and with which embedder."""

    build: int
    version: int
    log: LogIdentity
    embedder: EmbedderVersion
    is_active: bool
    """Whether it answers searches."""
    is_complete: bool
    """Whether the log was folded to its end once since the build began."""
    position: int = 0
    """Stream sequence of the last event folded; 0 before the first."""
    hash: Digest | None = None
    """Digest of its stored bytes."""


async def read_knowledge_position(connection: AsyncConnection) -> KnowledgePosition | None:
    """Return the position of the active build; None before the first start."""
    return await _read_position(connection, _ACTIVE_ROW)


async def read_build_position(connection: AsyncConnection, build: int) -> KnowledgePosition | None:
    """Return the position of a build; None if it was replaced or abandoned."""
    return await _read_position(
        connection, and_(_match_build(build), PROJECTIONS.c.position != _ABANDONED)
    )


async def prepare_knowledge_build(
    connection: AsyncConnection, log: LogIdentity, embedder: EmbedderVersion
) -> KnowledgePosition:
    """Return the build to fold: the active one, or the one that is to take its place."""
    await _lock_builds(connection)
    active = await read_knowledge_position(connection)
    if active and (active.version, active.embedder.name) == (KNOWLEDGE_VERSION, embedder.name):
        return active
    unfinished = and_(
        _KNOWLEDGE_ROWS,
        PROJECTIONS.c.build > (active.build if active else 0),
        PROJECTIONS.c.position != _ABANDONED,
        PROJECTIONS.c.version == KNOWLEDGE_VERSION,
        PROJECTIONS.c.stream == log.stream,
        PROJECTIONS.c.created == log.created,
        KNOWLEDGE_INDEX.c.embedder == embedder.name,
    )
    found = await _read_position(connection, unfinished)
    return found or await begin_knowledge_build(connection, log, embedder)


async def _read_position(
    connection: AsyncConnection, condition: ColumnElement[bool]
) -> KnowledgePosition | None:
    found = (
        select(PROJECTIONS, KNOWLEDGE_INDEX)
        .join(KNOWLEDGE_INDEX, KNOWLEDGE_INDEX.c.build == PROJECTIONS.c.build)
        .where(condition)
    )
    row = (await connection.execute(found)).one_or_none()
    return _build_position(row) if row else None


def _build_position(row: Row[*tuple[object, ...]]) -> KnowledgePosition:
    return KnowledgePosition(
        build=row.build,
        version=row.version,
        log=LogIdentity(row.stream, row.created),
        embedder=EmbedderVersion(row.embedder, row.setting),
        is_active=row.active,
        is_complete=row.complete,
        position=row.position,
        hash=row.hash,
    )


async def begin_knowledge_build(
    connection: AsyncConnection, log: LogIdentity, embedder: EmbedderVersion
) -> KnowledgePosition:
    """Begin a build from the start of the log; abandon any other that is being filled."""
    await _lock_builds(connection)
    hidden = and_(_KNOWLEDGE_ROWS, PROJECTIONS.c.active != true())
    await connection.execute(update(PROJECTIONS).where(hidden).values(position=_ABANDONED))
    last = await connection.scalar(select(func.max(PROJECTIONS.c.build)).where(_KNOWLEDGE_ROWS))
    active = await connection.scalar(select(func.count()).where(_ACTIVE_ROW))
    begun = KnowledgePosition(
        build=(last or 0) + 1,
        version=KNOWLEDGE_VERSION,
        log=log,
        embedder=embedder,
        is_active=not active,
        is_complete=False,
    )
    await connection.execute(
        insert(PROJECTIONS).values(
            name=KNOWLEDGE_PROJECTION,
            build=begun.build,
            version=begun.version,
            stream=log.stream,
            created=log.created,
            position=begun.position,
            active=begun.is_active,
        )
    )
    await connection.execute(
        insert(KNOWLEDGE_INDEX).values(
            build=begun.build, embedder=embedder.name, setting=embedder.setting, complete=False
        )
    )
    return begun


async def mark_build_damaged(connection: AsyncConnection, build: int) -> bool:
    """Have a build made again; return whether this was the first to find it damaged."""
    sound = and_(_match_build(build), PROJECTIONS.c.version != DAMAGED_VERSION)
    marked = await connection.execute(
        update(PROJECTIONS).where(sound).values(version=DAMAGED_VERSION)
    )
    return bool(marked.rowcount)


async def _lock_builds(connection: AsyncConnection) -> None:
    """Let no other process begin a build until the transaction ends."""
    if connection.dialect.name == "postgresql":  # SQLite has one writer
        await connection.execute(text(f"SELECT pg_advisory_xact_lock({_BUILD_LOCK})"))


async def move_build_position(
    connection: AsyncConnection, before: KnowledgePosition, after: KnowledgePosition
) -> bool:
    """Move a position, and activate a build that is complete; False if it has moved meanwhile."""
    condition = and_(_match_build(before.build), PROJECTIONS.c.position == before.position)
    moved = update(PROJECTIONS).where(condition).values(position=after.position, hash=after.hash)
    if not (await connection.execute(moved)).rowcount:
        return False
    if after.is_complete and not before.is_complete:
        rows = KNOWLEDGE_INDEX.c
        complete = update(KNOWLEDGE_INDEX).where(rows.build == before.build).values(complete=True)
        await connection.execute(complete)
        former = and_(_ACTIVE_ROW, PROJECTIONS.c.build != before.build)
        hidden = update(PROJECTIONS).where(former).values(active=False, position=_ABANDONED)
        await connection.execute(hidden)
        this = update(PROJECTIONS).where(_match_build(before.build))
        await connection.execute(this.values(active=True))
    return True


async def clear_former_builds(store: ReadModelStore) -> None:
    """Clear the builds that were replaced or abandoned."""
    found = select(PROJECTIONS.c.build).where(_KNOWLEDGE_ROWS, PROJECTIONS.c.position == _ABANDONED)
    async with store.open_reader() as connection:
        builds = (await connection.scalars(found)).all()
    for build in builds:
        while await _clear_entries(store, build):
            pass
        async with store.open_writer() as connection:
            for table in (KNOWLEDGE_HISTORIES, KNOWLEDGE_INDEX):
                await connection.execute(delete(table).where(table.c.build == build))
            await connection.execute(delete(PROJECTIONS).where(_match_build(build)))


async def _clear_entries(store: ReadModelStore, build: int) -> bool:
    rows = KNOWLEDGE_ENTRIES.c
    some = select(rows.number).where(rows.build == build).order_by(rows.number).limit(_CLEAR_BATCH)
    async with store.open_writer() as connection:
        numbers = (await connection.scalars(some)).all()
        for table in (KNOWLEDGE_ENTRIES, KNOWLEDGE_TEXTS):
            of_some = and_(table.c.build == build, table.c.number.in_(numbers))
            await connection.execute(delete(table).where(of_some))
    return bool(numbers)


def _match_build(build: int) -> ColumnElement[bool]:
    return and_(_KNOWLEDGE_ROWS, PROJECTIONS.c.build == build)
