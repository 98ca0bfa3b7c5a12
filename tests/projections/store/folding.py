"""Folding events into rows, and reading the rows as values that can be compared."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from tests.projections.store.histories import everything
from turnlog.events.log.ports import Identity, Log, Raw
from turnlog.projections.store import checkpoints
from turnlog.projections.store.advance import advance
from turnlog.projections.store.checkpoints import Checkpoint
from turnlog.projections.store.engine import Store
from turnlog.projections.store.fold import Poison, arrived
from turnlog.projections.store.tables import ROWS

LOG = Identity("SESSIONS", "2026-01-01T00:00:00Z")

Rows = dict[str, list[tuple[object, ...]]]


async def live(store: Store) -> Checkpoint:
    """Return the position of the build that readers see; begin one if there is none."""
    async with store.writing() as connection:
        there = await checkpoints.active(connection)
        return there or await checkpoints.begin(connection, LOG, seen=True)


async def another(store: Store) -> Checkpoint:
    """Begin a build that readers do not see."""
    async with store.writing() as connection:
        return await checkpoints.begin(connection, LOG, seen=False)


async def fold(
    store: Store, at: Checkpoint, raws: Sequence[Raw]
) -> tuple[Checkpoint, list[Poison]]:
    """Fold events in one transaction and require that the position did not move meanwhile."""
    if not raws:
        return at, []
    async with store.writing() as connection:
        step = await advance(connection, at, [arrived(raw) for raw in raws])
    assert step is not None
    return step.checkpoint, list(step.poisons)


async def fold_log(store: Store, log: Log) -> list[Poison]:
    """Fold the events of a log that the active rows lack."""
    at = await live(store)
    waiting = [raw for raw in await everything(log) if raw.stream_sequence > at.position]
    return (await fold(store, at, waiting))[1]


async def rows_of(store: Store, build: int) -> Rows:
    """Return all rows of a build, without the build number, in primary key order."""
    rows: Rows = {}
    async with store.reading() as connection:
        for table in ROWS:
            columns = [column for column in table.c if column.name != "build"]
            keys = [column for column in table.primary_key.columns if column.name != "build"]
            found = select(*columns).where(table.c.build == build).order_by(*keys)
            rows[table.name] = [tuple(row) for row in await connection.execute(found)]
    return rows
