"""Queries of segments: by scope, kind and text, in order of their numbers.

A row is the current state of one variant of a segment. A page continues after its last segment,
whose number never changes, so none is repeated or missed while others are edited.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Final

from sqlalchemy import ColumnElement, select
from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.projections.store.library import SEEN
from turnlog.projections.store.library_tables import SEGMENTS
from turnlog.projections.store.selecting import columns_of
from turnlog.projections.store.texts import storable

PAGE: Final = 100
_ROWS: Final = SEGMENTS.c


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """A variant of a segment."""

    id: int
    variant: str
    scope: str
    ref: str | None
    locale: str | None
    content: str | None
    digest: str
    characters: int
    tier: int
    type: str
    priority: str
    active: bool
    version: int
    edited_at: str
    edited_by: str


@dataclass(frozen=True, slots=True)
class Sought:
    """Which segments to list; a condition that is None is not applied."""

    scope: str | None = None
    ref: str | None = None
    locale: str | None = None
    type: str | None = None
    active: bool | None = None
    q: str | None = None
    """Substring of the text, ignoring case."""


async def segments(
    connection: AsyncConnection, tenant: str, sought: Sought, *, after: int, limit: int
) -> tuple[tuple[SegmentRow, ...], bool]:
    """Return the variants of up to `limit` segments after a number, and whether there are more."""
    numbers = (
        select(_ROWS.id)
        .where(*_conditions(tenant, sought), _ROWS.id > after)
        .distinct()
        .order_by(_ROWS.id)
        .limit(limit + 1)
    )
    found = (
        select(*columns_of(SEGMENTS, SegmentRow))
        .where(*_conditions(tenant, sought), _ROWS.id.in_(numbers))
        .order_by(_ROWS.id, _ROWS.variant)
    )
    rows = [SegmentRow(**row) for row in (await connection.execute(found)).mappings()]
    by_number = [tuple(group) for _, group in groupby(rows, key=lambda row: row.id)]
    given = by_number[:limit]
    return tuple(row for group in given for row in group), len(by_number) > limit


def _conditions(tenant: str, sought: Sought) -> list[ColumnElement[bool]]:
    conditions = [_ROWS.build == SEEN, _ROWS.tenant == tenant]
    for name in ("scope", "ref", "locale", "type"):
        wanted = getattr(sought, name)
        if wanted is not None:
            conditions.append(SEGMENTS.c[name] == storable(wanted))
    if sought.active is not None:
        conditions.append(_ROWS.active.is_(sought.active))
    if sought.q is not None:
        conditions.append(_ROWS.sought.contains(storable(sought.q.casefold()), autoescape=True))
    return conditions
