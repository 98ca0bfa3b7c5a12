"""Queries of the overview: turns in flight, failures, latencies, and sessions near their budget.

Each reads by an index what is asked for and no more, since many people keep an overview open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, get_args

from sqlalchemy import Select, and_, func, select

from turnlog.projections.session_views.session_history import TurnStatus
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.read.row_filters import match_tenant
from turnlog.projections.store.schema.read_model_tables import ATTEMPTS, CALLS, SESSIONS, TURNS

NEAR_SHARE: Final = 900
"""Thousandths of its budget from which on a session is near."""

LISTED_ROWS: Final = 10
"""Rows of each table of an overview."""

_IN_FLIGHT: Final = ("open", "queued")

_OPEN_SESSIONS: Final = SESSIONS.c.closed_at.is_(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NearSessionRow:
    """An open session and how much of its budget its last prompt took."""

    session: str
    title: str | None
    blueprint: str
    version: int
    budget_share: float
    """1 is all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCountRow:
    """The turns that failed with one code."""

    code: str | None
    turns: int
    last_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLatencyRow:
    """How long the measured attempts of a model took."""

    model: str
    attempts: int
    p95_ms: int


async def count_turns_in_flight(connection: AsyncConnection, tenant: str) -> int:
    """Return how many turns are not over."""
    found = select(func.count()).where(match_tenant(TURNS, tenant), TURNS.c.status.in_(_IN_FLIGHT))
    return await connection.scalar(found) or 0


async def count_turns_since(connection: AsyncConnection, tenant: str, since: str) -> int:
    """Return how many turns were submitted since a time."""
    found = select(func.count()).where(
        match_tenant(TURNS, tenant),
        # All of them are named, so that the index by status and time has each.
        TURNS.c.status.in_(get_args(TurnStatus)),
        TURNS.c.submitted_at >= since,
        TURNS.c.counted,
    )
    return await connection.scalar(found) or 0


async def list_failure_counts(
    connection: AsyncConnection, tenant: str, since: str
) -> tuple[FailureCountRow, ...]:
    """Return the codes that turns submitted since a time failed with, the most frequent first."""
    turns, last_at = func.count(), func.max(TURNS.c.submitted_at)
    found = (
        select(
            TURNS.c.failure.label("code"),
            turns.label("turns"),
            last_at.label("last_at"),
        )
        .where(
            match_tenant(TURNS, tenant),
            TURNS.c.status == "failed",
            TURNS.c.submitted_at >= since,
            TURNS.c.counted,
        )
        .group_by(TURNS.c.failure)
        .order_by(turns.desc(), last_at.desc())
    )
    return tuple(FailureCountRow(**row) for row in (await connection.execute(found)).mappings())


async def list_model_latencies(
    connection: AsyncConnection, tenant: str, since: str
) -> tuple[ModelLatencyRow, ...]:
    """Return how long attempts at calls since a time took by model, the slowest first."""
    found = (await connection.execute(_select_latencies(tenant, since, by_model=True))).mappings()
    return tuple(ModelLatencyRow(**row) for row in found)


async def find_latency(connection: AsyncConnection, tenant: str, since: str) -> int | None:
    """Return the milliseconds within which 95 of 100 attempts at calls since a time ended."""
    row = (await connection.execute(_select_latencies(tenant, since, by_model=False))).first()
    return row.p95_ms if row else None


def _select_latencies(tenant: str, since: str, *, by_model: bool) -> Select[Any, Any, Any]:
    """Select the nearest rank: the shortest time that 95 of 100 attempts did not exceed."""
    of_call = and_(
        *(ATTEMPTS.c[name] == CALLS.c[name] for name in ("build", "tenant", "session", "turn")),
        ATTEMPTS.c.call == CALLS.c.call,
        ATTEMPTS.c.copied.is_(False),
        ATTEMPTS.c.total_ms.is_not(None),
    )
    group = [CALLS.c.model] if by_model else []
    times = (
        select(
            CALLS.c.model,
            ATTEMPTS.c.total_ms.label("p95_ms"),
            func.row_number().over(partition_by=group, order_by=ATTEMPTS.c.total_ms).label("place"),
            func.count().over(partition_by=group).label("attempts"),
        )
        .join_from(CALLS, ATTEMPTS, of_call)
        .where(match_tenant(CALLS, tenant), CALLS.c.at >= since)
        .subquery()
    )
    rows, rank = times.c, times.c.attempts * 95
    return (
        select(rows.model, rows.attempts, rows.p95_ms)
        .where(rows.place * 100 >= rank, (rows.place - 1) * 100 < rank)
        .order_by(rows.p95_ms.desc(), rows.model)
        .limit(LISTED_ROWS)
    )


async def count_near_sessions(connection: AsyncConnection, tenant: str) -> int:
    """Return how many open sessions are near their budget."""
    is_near = SESSIONS.c.budget_share >= NEAR_SHARE
    found = select(func.count()).where(match_tenant(SESSIONS, tenant), is_near, _OPEN_SESSIONS)
    return await connection.scalar(found) or 0


async def list_near_sessions(
    connection: AsyncConnection, tenant: str
) -> tuple[NearSessionRow, ...]:
    """Return the open sessions whose last prompts took most of their budgets, the nearest first."""
    columns = SESSIONS.c
    found = (
        select(
            columns.session,
            func.coalesce(columns.given_title, columns.title).label("title"),
            columns.blueprint,
            columns.blueprint_version.label("version"),
            columns.budget_share,
        )
        .where(match_tenant(SESSIONS, tenant), columns.budget_share.is_not(None), _OPEN_SESSIONS)
        .order_by(columns.budget_share.desc(), columns.opened_position.desc())
        .limit(LISTED_ROWS)
    )
    return tuple(
        NearSessionRow(**{**row, "budget_share": row["budget_share"] / 1_000})
        for row in (await connection.execute(found)).mappings()
    )
