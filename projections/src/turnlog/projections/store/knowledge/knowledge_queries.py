"""Queries of knowledge: the collections of a tenant, and the entries of one of them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Row, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.events.content import Digest
from turnlog.events.model.tenant.knowledge_events import EntryKind
from turnlog.projections.store.knowledge.knowledge_projection import ACTIVE_KNOWLEDGE_BUILD
from turnlog.projections.store.schema.read_model_tables import KNOWLEDGE_ENTRIES

_ROWS = KNOWLEDGE_ENTRIES.c


@dataclass(frozen=True, slots=True)
class CollectionRow:
    """A collection."""

    collection: str
    """Its name."""
    cases: int
    """How many cases it contains."""
    documents: int
    """How many parts of documents it contains."""
    characters: int
    """The length of all texts in code points."""


@dataclass(frozen=True, slots=True)
class EntryRow:
    """An entry of a collection as it is now."""

    collection: str
    """The collection."""
    id: str
    """The id within the collection."""
    kind: EntryKind
    """`case` or `document`."""
    title: str
    """What it is about."""
    text: str | None
    """The text; null when it was erased."""
    digest: Digest
    """The digest of the text."""
    characters: int
    """The length in code points."""
    source: str | None
    """The file that an import read it from."""
    tags: tuple[str, ...]
    """Words that authors sort entries by."""
    attributes: dict[str, str]
    """Further properties."""
    efficiency: float | None
    """How efficient a case was, from 0 to 1."""
    revision: int
    """The sequence of the knowledge at which it got this text."""
    edited_at: str
    """When that was recorded."""
    edited_by: str
    """The actor of that."""


async def list_collections(connection: AsyncConnection, tenant: str) -> tuple[CollectionRow, ...]:
    """Return the collections of a tenant by name."""
    cases = func.count().filter(_ROWS.kind == "case")
    found = (
        select(
            _ROWS.collection,
            cases.label("cases"),
            func.count().label("entries"),
            func.sum(_ROWS.characters).label("characters"),
        )
        .where(*_match_tenant(tenant))
        .group_by(_ROWS.collection)
        .order_by(_ROWS.collection)
    )
    return tuple(
        CollectionRow(row.collection, row.cases, row.entries - row.cases, int(row.characters))
        for row in await connection.execute(found)
    )


async def list_entries(
    connection: AsyncConnection,
    tenant: str,
    collection: str,
    *,
    after: str = "",
    limit: int,
) -> tuple[tuple[EntryRow, ...], bool]:
    """Return up to `limit` entries after an id, in order of ids, and whether there are more."""
    found = (
        select(KNOWLEDGE_ENTRIES)
        .where(*_match_tenant(tenant), _ROWS.collection == collection, _ROWS.entry > after)
        .order_by(_ROWS.entry)
        .limit(limit + 1)
    )
    rows = (await connection.execute(found)).all()
    return tuple(_build_entry(row) for row in rows[:limit]), len(rows) > limit


async def find_entry(
    connection: AsyncConnection, tenant: str, collection: str, entry: str
) -> EntryRow | None:
    """Return an entry, or None."""
    found = select(KNOWLEDGE_ENTRIES).where(
        *_match_tenant(tenant), _ROWS.collection == collection, _ROWS.entry == entry
    )
    row = (await connection.execute(found)).one_or_none()
    return _build_entry(row) if row else None


def _match_tenant(tenant: str) -> tuple[ColumnElement[bool], ...]:
    return _ROWS.build == ACTIVE_KNOWLEDGE_BUILD, _ROWS.tenant == tenant


def _build_entry(row: Row[*tuple[object, ...]]) -> EntryRow:
    return EntryRow(
        row.collection,
        row.entry,
        row.kind,
        row.title,
        row.content,
        row.digest,
        row.characters,
        row.source,
        tuple(json.loads(row.tags)),
        json.loads(row.attributes),
        row.efficiency,
        row.revision,
        row.edited_at,
        row.edited_by,
    )
