"""Rows and index of knowledge: both change together with the position, or not at all.

The caller opens the transaction. The position is moved by compare-and-set, so two projectors never
overwrite each other.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import and_, delete, func, insert, select, update

from turnlog.events.content import Digest
from turnlog.events.model.knowledge_events import KnowledgeEntry
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.knowledge.entry_words import encode_words
from turnlog.projections.store.knowledge.knowledge_builds import (
    ACTIVE_KNOWLEDGE_BUILD,
    KnowledgePosition,
    move_build_position,
)
from turnlog.projections.store.schema.read_model_tables import (
    KNOWLEDGE_ENTRIES,
    KNOWLEDGE_HISTORIES,
    KNOWLEDGE_TEXTS,
    encode_json,
    replace_nul,
)

Vector = Sequence[float]

_NUMBER_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class KnowledgeHistory:
    """How far the rows of one tenant are folded."""

    sequence: int
    hash: Digest
    replaced: int
    stopped: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(slots=True, kw_only=True)
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


async def read_histories(connection: AsyncConnection, build: int) -> dict[str, KnowledgeHistory]:
    """Return how far each tenant is folded."""
    found = select(KNOWLEDGE_HISTORIES).where(KNOWLEDGE_HISTORIES.c.build == build)
    return {
        row.tenant: KnowledgeHistory(row.sequence, row.hash, row.replaced, row.stopped)
        for row in await connection.execute(found)
    }


async def read_history(
    connection: AsyncConnection, build: int, tenant: str
) -> KnowledgeHistory | None:
    """Return how far a tenant is folded; None if it has no knowledge."""
    rows = KNOWLEDGE_HISTORIES.c
    found = select(KNOWLEDGE_HISTORIES).where(rows.build == build, rows.tenant == tenant)
    row = (await connection.execute(found)).one_or_none()
    return KnowledgeHistory(row.sequence, row.hash, row.replaced, row.stopped) if row else None


async def read_knowledge_sequence(store: ReadModelStore, tenant: str) -> int:
    """Return the sequence of a tenant's knowledge that the rows are folded to; 0 without rows."""
    rows = KNOWLEDGE_HISTORIES.c
    found = select(rows.sequence).where(rows.build == ACTIVE_KNOWLEDGE_BUILD, rows.tenant == tenant)
    async with store.open_reader() as connection:
        return await connection.scalar(found) or 0


async def read_vector_length(connection: AsyncConnection, build: int) -> int | None:
    """Return how many numbers the vectors of a build have; None if there are none."""
    rows = KNOWLEDGE_TEXTS.c
    found = select(func.length(rows.vector)).where(rows.build == build).limit(1)
    length = await connection.scalar(found)
    return int(length) // _NUMBER_BYTES if length is not None else None


async def write_knowledge(
    connection: AsyncConnection,
    before: KnowledgePosition,
    after: KnowledgePosition,
    changes: Mapping[str, TenantChanges],
) -> bool:
    """Write changed entries and move the position; return False if it has moved meanwhile."""
    if not await move_build_position(connection, before, after):
        return False
    build, rows = before.build, KNOWLEDGE_HISTORIES.c
    for tenant, change in changes.items():
        history = await read_history(connection, build, tenant)
        if history is None:
            begun = {"build": build, "tenant": tenant, "sequence": 0, "hash": "", "replaced": 0}
            await connection.execute(insert(KNOWLEDGE_HISTORIES).values(**begun))
        replaced = await _delete_entries(connection, build, tenant, change.removed)
        await _insert_entries(connection, build, tenant, tuple(change.puts.values()))
        await connection.execute(
            update(KNOWLEDGE_HISTORIES)
            .where(rows.build == build, rows.tenant == tenant)
            .values(
                sequence=change.sequence,
                hash=change.hash,
                replaced=rows.replaced + replaced,
                stopped=change.stopped,
            )
        )
    return True


async def _delete_entries(
    connection: AsyncConnection, build: int, tenant: str, removed: set[tuple[str, str]]
) -> int:
    """Delete entries that exist; return how many those were."""
    rows, texts = KNOWLEDGE_ENTRIES.c, KNOWLEDGE_TEXTS.c
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
        old = (await connection.scalars(select(rows.number).where(condition))).all()
        of_old = and_(texts.build == build, texts.number.in_(old))
        await connection.execute(delete(KNOWLEDGE_TEXTS).where(of_old))
        await connection.execute(delete(KNOWLEDGE_ENTRIES).where(condition))
        count += len(old)
    return count


async def _insert_entries(
    connection: AsyncConnection, build: int, tenant: str, puts: Sequence[EntryChange]
) -> None:
    if not puts:
        return
    values = [
        {
            "build": build,
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
        {
            "build": build,
            "number": put.number,
            "tenant": tenant,
            "collection": put.collection,
            "words": encode_words(put.entry.title, put.text),
            "vector": encode_vector(put.vector),
        }
        for put in puts
        if put.text is not None and put.vector is not None
    ]
    if texts:
        await connection.execute(insert(KNOWLEDGE_TEXTS), texts)


def encode_vector(vector: Vector) -> bytes:
    """Return a vector as it is stored."""
    return struct.pack(f"<{len(vector)}f", *vector)
