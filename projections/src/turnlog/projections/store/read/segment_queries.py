"""Queries of segments: by scope, kind and text, in order of their numbers.

A row is the current state of one variant of a segment. A page continues after its last segment,
whose number never changes, so none is repeated or missed while others are edited.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Final

from sqlalchemy import ColumnElement, select

from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.read.row_filters import select_columns
from turnlog.projections.store.read.row_types import ListedSegment
from turnlog.projections.store.schema.read_model_tables import SEGMENTS, replace_nul
from turnlog.projections.store.write.segment_projection import ACTIVE_SEGMENTS_BUILD

SEGMENT_PAGE_SIZE: Final = 100

_SEGMENT_COLUMNS: Final = SEGMENTS.c


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRowFilter:
    """Which segments to list; a condition that is None is not applied."""

    scope: str | None = None
    ref: str | None = None
    locale: str | None = None
    type: str | None = None
    active: bool | None = None
    q: str | None = None
    """Substring of the text, ignoring case."""


async def list_segments(
    connection: AsyncConnection, tenant: str, sought: SegmentRowFilter, *, after: int, limit: int
) -> tuple[tuple[ListedSegment, ...], bool]:
    """Return the variants of up to `limit` segments after a number, and whether there are more."""
    numbers = (
        select(_SEGMENT_COLUMNS.id)
        .where(*_build_conditions(tenant, sought), _SEGMENT_COLUMNS.id > after)
        .distinct()
        .order_by(_SEGMENT_COLUMNS.id)
        .limit(limit + 1)
    )
    found = (
        select(*select_columns(SEGMENTS, ListedSegment))
        .where(*_build_conditions(tenant, sought), _SEGMENT_COLUMNS.id.in_(numbers))
        .order_by(_SEGMENT_COLUMNS.id, _SEGMENT_COLUMNS.variant)
    )
    rows = [ListedSegment(**row) for row in (await connection.execute(found)).mappings()]
    by_number = [tuple(group) for _, group in groupby(rows, key=lambda row: row.id)]
    page = by_number[:limit]
    return tuple(row for group in page for row in group), len(by_number) > limit


def _build_conditions(tenant: str, sought: SegmentRowFilter) -> list[ColumnElement[bool]]:
    conditions = [
        _SEGMENT_COLUMNS.build == ACTIVE_SEGMENTS_BUILD,
        _SEGMENT_COLUMNS.tenant == tenant,
    ]
    for name in ("scope", "ref", "locale", "type"):
        value = getattr(sought, name)
        if value is not None:
            conditions.append(SEGMENTS.c[name] == replace_nul(value))
    if sought.active is not None:
        conditions.append(_SEGMENT_COLUMNS.active.is_(sought.active))
    if sought.q is not None:
        conditions.append(
            _SEGMENT_COLUMNS.sought.contains(replace_nul(sought.q.casefold()), autoescape=True)
        )
    return conditions
