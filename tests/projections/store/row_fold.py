"""Folding events into rows, and reading the rows as values that can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, delete, insert, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.projections.store.session_histories import read_all_events
from turnlog.events.store.ports import EventLog, LogIdentity, RawEvent
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.growth.hour_sums import sum_changed_hour
from turnlog.projections.store.read.row_filters import match_session
from turnlog.projections.store.schema.hour_tables import CHANGED_HOURS
from turnlog.projections.store.schema.read_model_tables import ROW_TABLES, TURNS
from turnlog.projections.store.write import projection_positions
from turnlog.projections.store.write.batch_apply import apply_batch
from turnlog.projections.store.write.projection_positions import ProjectionPosition
from turnlog.projections.store.write.quarantining_fold import PoisonEvent

LAST_HOUR = "9999-12-31T23"

LOG_IDENTITY = LogIdentity("SESSIONS", "2026-01-01T00:00:00Z")

Rows = dict[str, list[tuple[object, ...]]]


async def ensure_live_position(store: ReadModelStore) -> ProjectionPosition:
    """Give the checkpoint of the build that readers see, made when there is none."""
    async with store.open_writer() as connection:
        position = await projection_positions.read_active_position(connection)
        return position or await projection_positions.begin_build(
            connection, LOG_IDENTITY, is_active=True
        )


async def begin_hidden_build(store: ReadModelStore) -> ProjectionPosition:
    """Begin a build that readers do not see."""
    async with store.open_writer() as connection:
        return await projection_positions.begin_build(connection, LOG_IDENTITY, is_active=False)


async def start_live_build(store: ReadModelStore) -> ProjectionPosition:
    """Begin a build without rows, and let readers see it."""
    hidden = await begin_hidden_build(store)
    async with store.open_writer() as connection:
        live = await projection_positions.switch_to_build(connection, hidden)
    assert live is not None
    return live


async def fold_events(
    store: ReadModelStore, at: ProjectionPosition, raws: Sequence[RawEvent]
) -> tuple[ProjectionPosition, list[PoisonEvent]]:
    """Fold events in one transaction, and be sure that nobody else moved the checkpoint."""
    if not raws:
        return at, []
    step = await store.run_writer(lambda connection: apply_batch(connection, at, raws))
    assert step is not None
    return step.checkpoint, list(step.poisons)


async def fold_log(store: ReadModelStore, log: EventLog) -> list[PoisonEvent]:
    """Fold what the live rows lack of a log."""
    at = await ensure_live_position(store)
    waiting = [raw for raw in await read_all_events(log) if raw.stream_sequence > at.position]
    return (await fold_events(store, at, waiting))[1]


async def sum_all_hours(store: ReadModelStore) -> None:
    """Compute the sums of every hour, the latest too, since another one is said to have changed."""
    async with store.open_writer() as connection:
        await connection.execute(delete(CHANGED_HOURS).where(CHANGED_HOURS.c.hour == LAST_HOUR))
        owners = select(CHANGED_HOURS.c.build, CHANGED_HOURS.c.tenant, literal(LAST_HOUR))
        names = ["build", "tenant", "hour"]
        await connection.execute(insert(CHANGED_HOURS).from_select(names, owners.distinct()))
    await sum_changed_hours(store)


async def sum_changed_hours(store: ReadModelStore) -> None:
    """Compute the sums of every hour that changed, but the latest."""
    is_summed = True
    while is_summed:
        async with store.open_writer() as connection:
            is_summed = await sum_changed_hour(connection)


async def read_rows(store: ReadModelStore, build: int) -> Rows:
    """Give all rows of a build without its number, in the order of their keys."""
    rows: Rows = {}
    async with store.open_reader() as connection:
        for table in ROW_TABLES:
            columns = [column for column in table.c if column.name != "build"]
            keys = [column for column in table.primary_key.columns if column.name != "build"]
            found = select(*columns).where(table.c.build == build).order_by(*keys)
            rows[table.name] = [tuple(row) for row in await connection.execute(found)]
    return rows


async def read_turn_rows(
    connection: AsyncConnection, tenant: str, session: str
) -> Sequence[Row[Any]]:
    """Return the rows of a session's turns in the build that readers see, in order."""
    mine = match_session(TURNS, tenant, session)
    return (await connection.execute(select(TURNS).where(mine).order_by(TURNS.c.turn))).all()
