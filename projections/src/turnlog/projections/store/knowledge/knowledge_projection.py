"""Rows and index of knowledge: both change together with the position, or not at all.

The caller opens the transaction. The position is moved by compare-and-set, so two projectors never
overwrite each other. A rebuild deletes everything and folds in batches; searches are refused until
it is complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import and_, delete, func, insert, select, text, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.events.content import Digest
from turnlog.events.model.tenant.knowledge_events import KnowledgeEntry
from turnlog.events.store.ports import LogIdentity
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.knowledge.index_tables import (
    PGVECTOR,
    IndexedText,
    Vector,
    create_index_tables,
    create_words_table,
    delete_texts,
    insert_texts,
)
from turnlog.projections.store.schema.read_model_tables import (
    KNOWLEDGE_ENTRIES,
    KNOWLEDGE_HISTORIES,
    KNOWLEDGE_INDEX,
    PROJECTIONS,
    encode_json,
    replace_nul,
)

KNOWLEDGE_PROJECTION: Final = "knowledge"
"""The name of this projection; it never changes."""

KNOWLEDGE_VERSION: Final = 2
"""Incremented whenever the same events give another index; an older one is then rebuilt."""

_BUILD_LOCK: Final = 0x6B6E6F77
"""An arbitrary number, equal in every release."""

_ACTIVE_ROW: Final = and_(
    PROJECTIONS.c.name == KNOWLEDGE_PROJECTION, PROJECTIONS.c.active == true()
)

ACTIVE_KNOWLEDGE_BUILD: Final = select(PROJECTIONS.c.build).where(_ACTIVE_ROW).scalar_subquery()
"""The active build, looked up within the statement that reads its rows."""


@dataclass(frozen=True, slots=True)
class KnowledgePosition:
    """How far rows and index are folded, from which log, and with which embedder."""

    build: int
    version: int
    log: LogIdentity
    embedder: str
    vectors: str
    is_complete: bool
    """Whether the log was folded to its end once since the build began."""
    position: int = 0
    """Stream sequence of the last event folded; 0 before the first."""
    hash: Digest | None = None
    """Digest of its stored bytes."""


@dataclass(frozen=True, slots=True)
class KnowledgeHistory:
    """How far the rows of one tenant are folded."""

    number: int
    sequence: int
    hash: Digest
    replaced: int
    stopped: str | None


@dataclass(frozen=True, slots=True)
class EntryChange:
    """An entry as it is from an event on."""

    number: int
    """Follows from the place of the event, so that a rebuild gives the same."""
    collection: str
    entry: KnowledgeEntry
    text: str | None
    """None if its blob is missing."""
    vector: Vector | None
    revision: int
    edited_at: str
    edited_by: str


@dataclass(slots=True)
class TenantChanges:
    """What a batch of events changes for one tenant, in the order of the events."""

    sequence: int
    hash: Digest
    stopped: str | None = None
    puts: dict[tuple[str, str], EntryChange] = field(
        default_factory=dict[tuple[str, str], EntryChange]
    )
    """The entries that there are after the batch, of those that it changed."""
    removed: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Collection and id of every entry that was replaced or removed."""


async def read_knowledge_position(connection: AsyncConnection) -> KnowledgePosition | None:
    """Return the position; None before the first start."""
    found = (
        select(PROJECTIONS, KNOWLEDGE_INDEX)
        .join(KNOWLEDGE_INDEX, KNOWLEDGE_INDEX.c.build == PROJECTIONS.c.build)
        .where(_ACTIVE_ROW)
    )
    row = (await connection.execute(found)).one_or_none()
    if row is None:
        return None
    return KnowledgePosition(
        row.build,
        row.version,
        LogIdentity(row.stream, row.created),
        row.embedder,
        row.vectors,
        row.complete,
        row.position,
        row.hash,
    )


async def begin_knowledge_build(
    connection: AsyncConnection, log: LogIdentity, embedder: str
) -> KnowledgePosition:
    """Begin a new build: delete rows and index, and set the position before the first event."""
    if connection.dialect.name == "postgresql":
        # Two processes that create the same tables at once would fail; SQLite has one writer.
        await connection.execute(text(f"SELECT pg_advisory_xact_lock({_BUILD_LOCK})"))
    before = await read_knowledge_position(connection)
    for table in (KNOWLEDGE_ENTRIES, KNOWLEDGE_HISTORIES, KNOWLEDGE_INDEX):
        await connection.execute(delete(table))
    await connection.execute(delete(PROJECTIONS).where(_ACTIVE_ROW))
    begun = KnowledgePosition(
        before.build + 1 if before else 1,
        KNOWLEDGE_VERSION,
        log,
        embedder,
        await create_index_tables(connection),
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
            active=True,
        )
    )
    await connection.execute(
        insert(KNOWLEDGE_INDEX).values(
            build=begun.build, embedder=embedder, vectors=begun.vectors, complete=False
        )
    )
    return begun


async def read_histories(connection: AsyncConnection) -> dict[str, KnowledgeHistory]:
    """Return how far each tenant is folded."""
    rows = KNOWLEDGE_HISTORIES.c
    found = select(KNOWLEDGE_HISTORIES).where(rows.build == ACTIVE_KNOWLEDGE_BUILD)
    return {
        row.tenant: KnowledgeHistory(row.number, row.sequence, row.hash, row.replaced, row.stopped)
        for row in await connection.execute(found)
    }


async def read_knowledge_sequence(store: ReadModelStore, tenant: str) -> int:
    """Return the sequence of a tenant's knowledge that the rows are folded to; 0 without rows."""
    rows = KNOWLEDGE_HISTORIES.c
    found = select(rows.sequence).where(rows.build == ACTIVE_KNOWLEDGE_BUILD, rows.tenant == tenant)
    async with store.open_reader() as connection:
        return await connection.scalar(found) or 0


async def read_searchable_sequence(store: ReadModelStore, tenant: str) -> int:
    """Return the same, or -1 while there is no index that is complete."""
    complete = select(KNOWLEDGE_INDEX.c.complete).where(
        KNOWLEDGE_INDEX.c.build == ACTIVE_KNOWLEDGE_BUILD
    )
    rows = KNOWLEDGE_HISTORIES.c
    found = select(rows.sequence).where(rows.build == ACTIVE_KNOWLEDGE_BUILD, rows.tenant == tenant)
    async with store.open_reader() as connection:
        if not await connection.scalar(complete):
            return -1
        return await connection.scalar(found) or 0


async def read_vector_length(connection: AsyncConnection, vectors: str) -> int | None:
    """Return how many numbers the vectors of the index have; None if there are none."""
    length = "vector_dims(embedding)" if vectors == PGVECTOR else "length(embedding) / 4"
    found = await connection.scalar(text(f"SELECT {length} FROM knowledge_vectors LIMIT 1"))
    return int(found) if found is not None else None


async def write_knowledge(
    connection: AsyncConnection,
    before: KnowledgePosition,
    after: KnowledgePosition,
    changes: Mapping[str, TenantChanges],
) -> bool:
    """Write changed entries and move the position; return False if it has moved meanwhile."""
    condition = and_(
        _ACTIVE_ROW,
        PROJECTIONS.c.build == before.build,
        PROJECTIONS.c.position == before.position,
    )
    moved = update(PROJECTIONS).where(condition).values(position=after.position, hash=after.hash)
    if not (await connection.execute(moved)).rowcount:
        return False
    await connection.execute(update(KNOWLEDGE_INDEX).values(complete=after.is_complete))
    histories = await read_histories(connection)
    for tenant, change in changes.items():
        history = histories.get(tenant)
        number = history.number if history else await _add_history(connection, before, tenant)
        replaced = await _delete_entries(connection, before.build, tenant, number, change.removed)
        await _insert_entries(connection, before, tenant, number, tuple(change.puts.values()))
        rows = KNOWLEDGE_HISTORIES.c
        await connection.execute(
            update(KNOWLEDGE_HISTORIES)
            .where(rows.build == before.build, rows.tenant == tenant)
            .values(
                sequence=change.sequence,
                hash=change.hash,
                replaced=rows.replaced + replaced,
                stopped=change.stopped,
            )
        )
    return True


async def _add_history(connection: AsyncConnection, at: KnowledgePosition, tenant: str) -> int:
    last = select(func.max(KNOWLEDGE_HISTORIES.c.number))
    number = (await connection.scalar(last) or 0) + 1
    row = {"build": at.build, "tenant": tenant, "number": number}
    await connection.execute(
        insert(KNOWLEDGE_HISTORIES).values(**row, sequence=0, hash="", replaced=0)
    )
    await create_words_table(connection, number)
    return number


async def _delete_entries(
    connection: AsyncConnection,
    build: int,
    tenant: str,
    history: int,
    removed: set[tuple[str, str]],
) -> int:
    """Delete entries that exist; return how many those were."""
    rows = KNOWLEDGE_ENTRIES.c
    count = 0
    by_collection: dict[str, list[str]] = {}
    for collection, entry in sorted(removed):
        by_collection.setdefault(collection, []).append(entry)
    for collection, ids in by_collection.items():
        condition = and_(
            rows.build == build,
            rows.tenant == tenant,
            rows.collection == collection,
            rows.entry.in_(ids),
        )
        old = (
            await connection.execute(select(rows.number, rows.title, rows.content).where(condition))
        ).all()
        await delete_texts(connection, history, [(r.number, r.title, r.content) for r in old])
        await connection.execute(delete(KNOWLEDGE_ENTRIES).where(condition))
        count += len(old)
    return count


async def _insert_entries(
    connection: AsyncConnection,
    at: KnowledgePosition,
    tenant: str,
    history: int,
    puts: Sequence[EntryChange],
) -> None:
    if not puts:
        return
    values = [
        {
            "build": at.build,
            "tenant": tenant,
            "collection": put.collection,
            "entry": put.entry.id,
            "number": put.number,
            "kind": put.entry.kind,
            "title": replace_nul(put.entry.title),
            "content": put.text,
            "digest": put.entry.digest,
            "characters": put.entry.characters,
            "source": put.entry.source,
            "tags": encode_json(list(put.entry.tags)),
            "attributes": encode_json(dict(put.entry.attributes)),
            "efficiency": put.entry.efficiency,
            "revision": put.revision,
            "edited_at": put.edited_at,
            "edited_by": put.edited_by,
        }
        for put in puts
    ]
    await connection.execute(insert(KNOWLEDGE_ENTRIES), values)
    texts = [
        IndexedText(
            put.number, tenant, history, put.collection, put.entry.title, put.text, put.vector
        )
        for put in puts
        if put.text is not None and put.vector is not None
    ]
    await insert_texts(connection, at.vectors, texts)
