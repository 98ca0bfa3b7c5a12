from __future__ import annotations

from collections import defaultdict

from sqlalchemy import BigInteger, ScalarSelect, Table, and_, cast, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.projections.store.rows import AttemptRow, CallRow, TenantCounts, TurnRow
from turnlog.projections.store.selecting import select_columns, match_session, match_tenant
from turnlog.projections.store.tables import (
    ATTEMPTS,
    CALLS,
    REDACTIONS,
    SESSIONS,
    TURNS,
)


async def list_turns(
    connection: AsyncConnection, tenant: str, session: str, *, after: int = 0, limit: int | None
) -> tuple[TurnRow, ...]:
    """Return a session's turns after a turn, in order; all of them without a limit."""
    found = (
        select(*select_columns(TURNS, TurnRow))
        .where(match_session(TURNS, tenant, session), TURNS.c.turn > after)
        .order_by(TURNS.c.turn)
        .limit(limit)
    )
    return tuple(TurnRow(**row) for row in (await connection.execute(found)).mappings())


async def list_calls(connection: AsyncConnection, tenant: str, session: str) -> tuple[CallRow, ...]:
    """Return a session's calls in order, each with its attempts."""
    tried: defaultdict[str, list[AttemptRow]] = defaultdict(list)
    for attempt in await list_attempts(connection, tenant, session):
        tried[attempt.call].append(attempt)
    found = (
        select(*select_columns(CALLS, CallRow))
        .where(match_session(CALLS, tenant, session))
        .order_by(CALLS.c.sequence)
    )
    return tuple(
        CallRow(**row, attempts=tuple(tried[row["call"]]))
        for row in (await connection.execute(found)).mappings()
    )


async def list_attempts(
    connection: AsyncConnection, tenant: str, session: str
) -> tuple[AttemptRow, ...]:
    """Return a session's attempts in order, including those of calls without a fixed prompt."""
    found = (
        select(*select_columns(ATTEMPTS, AttemptRow))
        .where(match_session(ATTEMPTS, tenant, session))
        .order_by(ATTEMPTS.c.turn, ATTEMPTS.c.attempt)
    )
    return tuple(AttemptRow(**row) for row in (await connection.execute(found)).mappings())


async def count_tenant(connection: AsyncConnection, tenant: str) -> TenantCounts:
    """Count what a tenant has."""
    still_open = and_(match_tenant(SESSIONS, tenant), SESSIONS.c.closed_at.is_(None))
    # Postgres returns a decimal sum; money is an integer.
    known = cast(func.coalesce(func.sum(ATTEMPTS.c.micro_dollars), 0), BigInteger)
    # Attempts that a fork copied were paid for in the original session.
    made = and_(match_tenant(ATTEMPTS, tenant), ATTEMPTS.c.copied.is_(False))
    ended = and_(made, ATTEMPTS.c.ended_at.is_not(None))
    found = select(
        _count_rows(SESSIONS, tenant).label("sessions"),
        select(func.count()).where(still_open).scalar_subquery().label("open_sessions"),
        _count_rows(TURNS, tenant).label("turns"),
        _count_rows(CALLS, tenant).label("calls"),
        _count_rows(REDACTIONS, tenant).label("redactions"),
        select(known).where(made).scalar_subquery().label("micro_dollars"),
        select(func.count())
        .where(ended, ATTEMPTS.c.micro_dollars.is_(None))
        .scalar_subquery()
        .label("unknown_costs"),
    )
    return TenantCounts(**(await connection.execute(found)).mappings().one())


def _count_rows(table: Table, tenant: str) -> ScalarSelect[int]:
    return select(func.count()).select_from(table).where(match_tenant(table, tenant)).scalar_subquery()
