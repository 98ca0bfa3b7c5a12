"""Queries of knowledge: the collections of a tenant, and the entries of one of them."""

from __future__ import annotations

import json

from sqlalchemy import ColumnElement, Row, func, select

from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.knowledge.knowledge_builds import ACTIVE_KNOWLEDGE_BUILD
from turnlog.projections.store.read.row_types import ListedCollection, ListedEntry
from turnlog.projections.store.schema.read_model_tables import KNOWLEDGE_ENTRIES

_ROWS = KNOWLEDGE_ENTRIES.c


async def list_collections(
    connection: AsyncConnection, tenant: str
) -> tuple[ListedCollection, ...]:
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
        ListedCollection(row.collection, row.cases, row.entries - row.cases, int(row.characters))
        for row in await connection.execute(found)
    )


async def list_entries(
    connection: AsyncConnection,
    tenant: str,
    collection: str,
    *,
    after: str = "",
    limit: int,
) -> tuple[tuple[ListedEntry, ...], bool]:
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
) -> ListedEntry | None:
    """Return an entry, or None."""
    found = select(KNOWLEDGE_ENTRIES).where(
        *_match_tenant(tenant), _ROWS.collection == collection, _ROWS.entry == entry
    )
    row = (await connection.execute(found)).one_or_none()
    return _build_entry(row) if row else None


def _match_tenant(tenant: str) -> tuple[ColumnElement[bool], ...]:
    return _ROWS.build == ACTIVE_KNOWLEDGE_BUILD, _ROWS.tenant == tenant


def _build_entry(row: Row[*tuple[object, ...]]) -> ListedEntry:
    return ListedEntry(
        collection=row.collection,
        id=row.entry,
        kind=row.kind,
        title=row.title,
        text=row.content,
        digest=row.digest,
        characters=row.characters,
        source=row.source,
        tags=tuple(json.loads(row.tags)),
        attributes=json.loads(row.attributes),
        efficiency=row.efficiency,
        revision=row.revision,
        edited_at=row.edited_at,
        edited_by=row.edited_by,
    )
