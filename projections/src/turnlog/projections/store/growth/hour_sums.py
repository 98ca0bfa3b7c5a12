"""Computes the sums over the calls of an hour, or of ten minutes, from their rows."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    Connection,
    Delete,
    Insert,
    ScalarSelect,
    Select,
    Subquery,
    Table,
    delete,
    func,
    insert,
    literal,
    select,
)

from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.growth.call_sums import CALL_SUMS, CallSum
from turnlog.projections.store.growth.chosen_calls import choose_calls, end_of_hour, match_times
from turnlog.projections.store.read.row_filters import ACTIVE_BUILD, sum_column
from turnlog.projections.store.schema.hour_tables import (
    CHANGED_HOURS,
    HOUR_CHARACTERS,
    HOUR_DIMENSIONS,
)
from turnlog.projections.store.schema.read_model_tables import CALLS
from turnlog.projections.store.write.projection_positions import lock_active_position

_OWNER: Final = ("build", "tenant")


async def has_changed_hour(connection: AsyncConnection) -> bool:
    """Return whether there is an hour for `sum_changed_hour`."""
    return (await connection.execute(_select_changed_hour(ACTIVE_BUILD))).first() is not None


async def sum_changed_hour(connection: AsyncConnection) -> bool:
    """Sum an hour or ten minutes that changed; False if none did but the latest of each tenant.

    The position is locked until the transaction ends, so no row of the hour changes meanwhile.
    """
    live = await lock_active_position(connection)
    if live is None:
        return False
    found = (await connection.execute(_select_changed_hour(live.build))).first()
    if found is None:
        return False
    hour = found.hour[:HOUR_CHARACTERS]
    is_over = hour < found.latest[:HOUR_CHARACTERS]
    await connection.run_sync(_sum_hour, live.build, found.tenant, hour if is_over else found.hour)
    return True


def _select_changed_hour(build: int | ScalarSelect[int]) -> Select[Any, Any, Any]:
    rows = CHANGED_HOURS.c
    earliest, latest = func.min(rows.hour), func.max(rows.hour)
    return (
        select(rows.tenant, earliest.label("hour"), latest.label("latest"))
        .where(rows.build == build)
        .group_by(rows.tenant)
        .having(earliest < latest)
        .order_by(earliest, rows.tenant)
        .limit(1)
    )


def _sum_hour(connection: Connection, build: int, tenant: str, hour: str) -> None:
    """Sum an hour, whose ten minutes then need no sums, or ten minutes."""
    mine = (CALLS.c.build == build, CALLS.c.tenant == tenant)
    chosen = choose_calls((*mine, *match_times(hour, end_of_hour(hour))), HOUR_DIMENSIONS)
    for each in CALL_SUMS:
        connection.execute(_delete_hour(each.hours, build, tenant, hour))
        connection.execute(_insert_sums(each, chosen, hour, connection.dialect.name))
    connection.execute(_delete_hour(CHANGED_HOURS, build, tenant, hour))


def _delete_hour(table: Table, build: int, tenant: str, hour: str) -> Delete:
    rows = table.c
    return delete(table).where(
        rows.build == build,
        rows.tenant == tenant,
        rows.hour >= hour,
        rows.hour < end_of_hour(hour),
    )


def _insert_sums(each: CallSum, chosen: Subquery, hour: str, dialect: str) -> Insert:
    keys = [chosen.c[name] for name in (*_OWNER, *HOUR_DIMENSIONS)]
    terms = each.select_terms(chosen, keys, dialect).subquery()
    shared = [terms.c[name] for name in (*_OWNER, *HOUR_DIMENSIONS, *each.labels)]
    figures = [sum_column(terms.c[name]) for name in each.figures]
    sums = select(literal(hour), *shared, *figures)
    names = ["hour", *(column.name for column in shared), *each.figures]
    return insert(each.hours).from_select(names, sums.group_by(*shared))
