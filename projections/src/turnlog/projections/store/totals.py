from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import BigInteger, ColumnElement, Table, cast, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.projections.audit.totals import SessionTotals
from turnlog.projections.store.selecting import match_tenant
from turnlog.projections.store.tables import ATTEMPTS, CALLS, SESSIONS, TURNS

TotalColumns = dict[str, ColumnElement[int]]


async def compute_totals(
    connection: AsyncConnection, tenant: str, sessions: Sequence[str]
) -> dict[str, SessionTotals]:
    """Return totals of these sessions by their rows, to compare with the events.

    Sessions without a row are left out.
    """
    figures: dict[str, dict[str, int]] = {}
    asked: dict[Table, TotalColumns] = {
        SESSIONS: {"sequence": func.max(SESSIONS.c.last_sequence)},
        TURNS: {"turns": func.count()},
        CALLS: {"calls": func.count(), "tokens": _sum_column(CALLS.c.tokens)},
        ATTEMPTS: {
            "attempts": func.count(),
            "input_tokens": _sum_column(ATTEMPTS.c.input_tokens),
            "output_tokens": _sum_column(ATTEMPTS.c.output_tokens),
            "micro_dollars": _sum_column(ATTEMPTS.c.micro_dollars),
        },
    }
    for table, wanted in asked.items():
        for session, found in (await _query_by_session(connection, table, tenant, sessions, wanted)).items():
            figures.setdefault(session, {}).update(found)
    return {session: SessionTotals(**found) for session, found in figures.items() if "sequence" in found}


def _sum_column(column: ColumnElement[int]) -> ColumnElement[int]:
    # Postgres returns a decimal sum; all of these are integers.
    return cast(func.coalesce(func.sum(column), 0), BigInteger)


async def _query_by_session(
    connection: AsyncConnection,
    table: Table,
    tenant: str,
    sessions: Sequence[str],
    wanted: TotalColumns,
) -> dict[str, dict[str, int]]:
    columns = [figure.label(name) for name, figure in wanted.items()]
    found = (
        select(table.c.session, *columns)
        .where(match_tenant(table, tenant), table.c.session.in_(sessions))
        .group_by(table.c.session)
    )
    rows = (await connection.execute(found)).mappings()
    return {row["session"]: {name: row[name] for name in wanted} for row in rows}
