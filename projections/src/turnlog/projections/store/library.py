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
from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.events.content import Digest
from turnlog.events.log.ports import Identity
from turnlog.projections.library.shelf import Segment, Version
from turnlog.projections.library.stock import Changed
from turnlog.projections.store.changes import Change, Put, Values
from turnlog.projections.store.engine import Store
from turnlog.projections.store.library_tables import LIBRARIES, SEGMENTS
from turnlog.projections.store.tables import PROJECTIONS
from turnlog.projections.store.writing import write

PROJECTION: Final = "library"
"""The name of this projection; it never changes."""
VERSION: Final = 1
"""Incremented whenever the same events give other rows; older rows are then rebuilt."""

_OURS: Final = and_(PROJECTIONS.c.name == PROJECTION, PROJECTIONS.c.active == true())
SEEN: Final = select(PROJECTIONS.c.build).where(_OURS).scalar_subquery()
"""The active build, looked up within the statement that reads its rows."""


Texts = Mapping[tuple[str, Digest], str]
"""Text by tenant and digest; a missing entry means that the blob is gone."""


@dataclass(frozen=True, slots=True)
class Shelved:
    """How far the rows are folded, and from which log."""

    build: int
    version: int
    log: Identity
    position: int = 0
    """Stream sequence of the last event folded; 0 before the first."""
    hash: Digest | None = None
    """Digest of its stored bytes."""


async def checkpoint(connection: AsyncConnection) -> Shelved | None:
    """Return the position; None before the first start."""
    row = (await connection.execute(select(PROJECTIONS).where(_OURS))).one_or_none()
    if row is None:
        return None
    log = Identity(row.stream, row.created)
    return Shelved(row.build, row.version, log, row.position, row.hash)


async def begin(connection: AsyncConnection, log: Identity) -> Shelved:
    """Begin a new build: delete all rows, and set the position before the first event."""
    before = await checkpoint(connection)
    begun = Shelved(before.build + 1 if before else 1, VERSION, log)
    for table in (SEGMENTS, LIBRARIES):
        await connection.execute(delete(table))
    await connection.execute(delete(PROJECTIONS).where(_OURS))
    row = insert(PROJECTIONS).values(
        name=PROJECTION,
        build=begun.build,
        version=begun.version,
        stream=log.stream,
        created=log.created,
        position=begun.position,
        active=True,
    )
    await connection.execute(row)
    return begun


async def keep(
    connection: AsyncConnection,
    before: Shelved,
    after: Shelved,
    changed: Iterable[Changed],
    texts: Texts,
) -> bool:
    """Write changed segments and move the position; return False if it has moved meanwhile."""
    there = and_(
        _OURS, PROJECTIONS.c.build == before.build, PROJECTIONS.c.position == before.position
    )
    moved = update(PROJECTIONS).where(there).values(position=after.position, hash=after.hash)
    if not (await connection.execute(moved)).rowcount:
        return False
    changes = [change for each in changed for change in _changes(each, texts)]
    await write(connection, before.build, changes)
    return True


async def folded(store: Store, tenant: str) -> int:
    """Return the sequence of a tenant's segments that the rows are folded to; 0 without rows."""
    rows = LIBRARIES.c
    found = select(rows.sequence).where(rows.build == SEEN, rows.tenant == tenant)
    async with store.reading() as connection:
        return await connection.scalar(found) or 0


def _changes(changed: Changed, texts: Texts) -> Iterator[Change]:
    shelf = changed.shelf
    values: Values = {"sequence": shelf.sequence, "stopped": changed.stopped}
    yield Put(LIBRARIES, (shelf.tenant,), values)
    for segment in changed.segments:
        for variant, version in segment.latest.items():
            text = texts.get((shelf.tenant, version.text.digest))
            yield Put(SEGMENTS, (shelf.tenant, segment.id, variant), _row(segment, version, text))


def _row(segment: Segment, version: Version, text: str | None) -> Values:
    said = version.text
    return {
        "scope": segment.scope,
        "ref": segment.ref,
        "locale": segment.locale,
        "content": text,
        "digest": said.digest,
        "characters": said.characters,
        "tier": said.tier,
        "type": said.type,
        "priority": said.priority,
        "active": version.variant in segment.on,
        "version": version.version,
        "edited_at": version.stamp.at,
        "edited_by": version.stamp.actor,
        "sought": (text or "").casefold(),
    }
