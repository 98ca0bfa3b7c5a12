"""Queries of the overview: turns in flight, failures, latencies, and sessions near their budget.

Each reads by an index what is asked for and no more, since many people keep an overview open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, get_args

from sqlalchemy import ColumnElement, Select, and_, func, select

from turnlog.projections.session_views.session_history import TurnStatus
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.read.row_filters import match_tenant
from turnlog.projections.store.schema.read_model_tables import ATTEMPTS, CALLS, SESSIONS, TURNS

_NEAR_SHARE: Final = 900
"""Thousandths of its budget from which on a session is near."""

LISTED_ROWS: Final = 10
"""Rows of each table of an overview."""

_IN_FLIGHT: Final = ("open", "queued")

_OPEN_SESSIONS: Final = SESSIONS.c.closed_at.is_(None)

IS_NEAR_BUDGET: Final = and_(_OPEN_SESSIONS, SESSIONS.c.budget_share >= _NEAR_SHARE)
"""An open session whose last prompt took nearly all of its budget."""

MEASURED_ATTEMPT_OF_CALL: Final = and_(
    *(ATTEMPTS.c[name] == CALLS.c[name] for name in ("build", "tenant", "session", "turn")),
    ATTEMPTS.c.call == CALLS.c.call,
    ATTEMPTS.c.copied.is_(False),
    ATTEMPTS.c.total_ms.is_not(None),
)
"""Joins a call with its own attempts whose time was measured."""


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


@dataclass(frozen=True, slots=True)
class Latencies:
    """Within how many milliseconds 95 of 100 attempts ended: all, and those of each model."""

    p95_ms: int | None
    """None without any measured attempt."""
    models: tuple[ModelLatencyRow, ...]
    """The slowest first."""


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


async def read_latencies(connection: AsyncConnection, tenant: str, since: str) -> Latencies:
    """Return how long the measured attempts at calls since a time took."""
    rows = (await connection.execute(_select_latencies(tenant, since))).all()
    models = [
        ModelLatencyRow(model=row.model, attempts=row.attempts, p95_ms=row.total_ms)
        for row in rows
        if row.is_of_model
    ]
    slowest = sorted(models, key=lambda each: (-each.p95_ms, each.model))[:LISTED_ROWS]
    return Latencies(
        p95_ms=next((row.total_ms for row in rows if row.is_of_all), None), models=tuple(slowest)
    )


def _select_latencies(tenant: str, since: str) -> Select[Any, Any, Any, bool, bool]:
    """Select the nearest ranks: the shortest times that 95 of 100 attempts did not exceed."""
    time, model = ATTEMPTS.c.total_ms, CALLS.c.model
    times = (
        select(
            model,
            time,
            func.row_number().over(order_by=time).label("place"),
            func.row_number().over(partition_by=model, order_by=time).label("place_of_model"),
            func.count().over().label("all"),
            func.count().over(partition_by=model).label("attempts"),
        )
        .join_from(CALLS, ATTEMPTS, MEASURED_ATTEMPT_OF_CALL)
        .where(match_tenant(CALLS, tenant), CALLS.c.at >= since)
        .subquery()
        .c
    )
    is_of_all = _is_nearest_rank(times.place, times["all"])
    is_of_model = _is_nearest_rank(times.place_of_model, times.attempts)
    return select(
        times.model,
        times.total_ms,
        times.attempts,
        is_of_all.label("is_of_all"),
        is_of_model.label("is_of_model"),
    ).where(is_of_all | is_of_model)


def _is_nearest_rank(place: ColumnElement[int], count: ColumnElement[int]) -> ColumnElement[bool]:
    return and_(place * 100 >= count * 95, (place - 1) * 100 < count * 95)


async def count_near_sessions(connection: AsyncConnection, tenant: str) -> int:
    """Return how many open sessions are near their budget."""
    found = select(func.count()).where(match_tenant(SESSIONS, tenant), IS_NEAR_BUDGET)
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
