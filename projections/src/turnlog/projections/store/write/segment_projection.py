"""Rows of library segments: rows and projection position change together, or not at all.

The caller opens the transaction. The position is moved by compare-and-set, so two projectors never
overwrite each other. A library is small, so a rebuild fills and activates a new build in one
transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import and_, delete, insert, select, true, update

from turnlog.events.content import Digest
from turnlog.events.store.ports import LogIdentity
from turnlog.projections.library.segment_library import LibrarySegment, SegmentVersion
from turnlog.projections.library.tenant_libraries import LibraryChange
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.schema.read_model_tables import LIBRARIES, PROJECTIONS, SEGMENTS
from turnlog.projections.store.write.row_changes import (
    ColumnValues,
    PutRow,
    RowChange,
    write_changes,
)

SEGMENTS_PROJECTION: Final = "library"
"""The name of this projection; it never changes."""

SEGMENTS_VERSION: Final = 1
"""Incremented whenever the same events give other rows; older rows are then rebuilt."""

_ACTIVE_SEGMENTS_ROW: Final = and_(
    PROJECTIONS.c.name == SEGMENTS_PROJECTION, PROJECTIONS.c.active == true()
)

ACTIVE_SEGMENTS_BUILD: Final = (
    select(PROJECTIONS.c.build).where(_ACTIVE_SEGMENTS_ROW).scalar_subquery()
)
"""The active build, looked up within the statement that reads its rows."""

SegmentTexts = Mapping[tuple[str, Digest], str]
"""Text by tenant and digest; a missing entry means that the blob is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentsPosition:
    """How far the rows are folded, and from which log."""

    build: int
    version: int
    log: LogIdentity
    position: int = 0
    """Stream sequence of the last event folded; 0 before the first."""
    hash: Digest | None = None
    """Digest of its stored bytes."""


async def read_segments_position(connection: AsyncConnection) -> SegmentsPosition | None:
    """Return the position; None before the first start."""
    row = (await connection.execute(select(PROJECTIONS).where(_ACTIVE_SEGMENTS_ROW))).one_or_none()
    if row is None:
        return None
    log = LogIdentity(row.stream, row.created)
    return SegmentsPosition(
        build=row.build, version=row.version, log=log, position=row.position, hash=row.hash
    )


async def begin_segments_build(connection: AsyncConnection, log: LogIdentity) -> SegmentsPosition:
    """Begin a new build: delete all rows, and set the position before the first event."""
    before = await read_segments_position(connection)
    begun = SegmentsPosition(
        build=before.build + 1 if before else 1, version=SEGMENTS_VERSION, log=log
    )
    for table in (SEGMENTS, LIBRARIES):
        await connection.execute(delete(table))
    await connection.execute(delete(PROJECTIONS).where(_ACTIVE_SEGMENTS_ROW))
    row = insert(PROJECTIONS).values(
        name=SEGMENTS_PROJECTION,
        build=begun.build,
        version=begun.version,
        stream=log.stream,
        created=log.created,
        position=begun.position,
        active=True,
    )
    await connection.execute(row)
    return begun


async def write_segments(
    connection: AsyncConnection,
    before: SegmentsPosition,
    after: SegmentsPosition,
    changed: Iterable[LibraryChange],
    texts: SegmentTexts,
) -> bool:
    """Write changed segments and move the position; return False if it has moved meanwhile."""
    condition = and_(
        _ACTIVE_SEGMENTS_ROW,
        PROJECTIONS.c.build == before.build,
        PROJECTIONS.c.position == before.position,
    )
    moved = update(PROJECTIONS).where(condition).values(position=after.position, hash=after.hash)
    if not (await connection.execute(moved)).rowcount:
        return False
    changes = [change for each in changed for change in _build_row_changes(each, texts)]
    await connection.run_sync(write_changes, before.build, changes)
    return True


async def read_segments_sequence(store: ReadModelStore, tenant: str) -> int:
    """Return the sequence of a tenant's segments that the rows are folded to; 0 without rows."""
    rows = LIBRARIES.c
    found = select(rows.sequence).where(rows.build == ACTIVE_SEGMENTS_BUILD, rows.tenant == tenant)
    async with store.open_reader() as connection:
        return await connection.scalar(found) or 0


def _build_row_changes(changed: LibraryChange, texts: SegmentTexts) -> Iterator[RowChange]:
    library = changed.library
    yield PutRow(LIBRARIES, (library.tenant,), {"sequence": library.sequence})
    for segment in changed.segments:
        for variant, version in segment.latest_versions.items():
            text = texts.get((library.tenant, version.text.digest))
            yield PutRow(
                SEGMENTS,
                (library.tenant, segment.id, variant),
                _build_segment_values(segment, version, text),
            )


def _build_segment_values(
    segment: LibrarySegment, version: SegmentVersion, text: str | None
) -> ColumnValues:
    version_text = version.text
    return {
        "scope": segment.scope,
        "ref": segment.ref,
        "locale": segment.locale,
        "content": text,
        "digest": version_text.digest,
        "characters": version_text.characters,
        "tier": version_text.tier,
        "type": version_text.type,
        "priority": version_text.priority,
        "active": version.variant in segment.active_versions,
        "version": version.version,
        "edited_at": version.stamp.at,
        "edited_by": version.stamp.actor,
        "sought": (text or "").casefold(),
    }
