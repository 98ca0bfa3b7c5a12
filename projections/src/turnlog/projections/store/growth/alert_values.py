"""What the rules of alerts measure: one figure each, and the sessions that have most of it.

A figure is read from sums, or by an index from the rows of a bounded window. The sessions are read
from rows, and only where an event is to name them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Select,
    Subquery,
    and_,
    exists,
    func,
    select,
    union,
)

from turnlog.events.codec import format_rfc3339
from turnlog.events.model.alert_events import MAX_ALERT_SESSIONS, AlertRule, AlertScope
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.growth.call_sums import CALL_SUMS
from turnlog.projections.store.growth.chosen_calls import SESSION_OF_CALL, choose_calls
from turnlog.projections.store.growth.group_growth import sum_calls
from turnlog.projections.store.growth.token_ledger import GrowthFilter
from turnlog.projections.store.read.overview_queries import (
    IS_NEAR_BUDGET,
    MEASURED_ATTEMPT_OF_CALL,
)
from turnlog.projections.store.read.row_filters import match_tenant, sum_column
from turnlog.projections.store.read.session_queries import match_attribute
from turnlog.projections.store.schema.hour_tables import ATTEMPT_HOURS, CACHE_HOURS, CALL_HOURS
from turnlog.projections.store.schema.read_model_tables import (
    ATTEMPTS,
    CALLS,
    QUARANTINE,
    SESSIONS,
    STRAY_MESSAGES,
    TURNS,
    replace_nul,
)

LONGEST_LISTED: Final = timedelta(days=1)
"""How far back the sessions of a figure are looked for: they are read row by row."""

_MICRO: Final = 1_000_000

_SETTLED: Final = ("completed", "failed", "cancelled")
"""The turns of which a share failed; those that go on may still end well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertQuestion:
    """What a rule asks at a time."""

    tenant: str
    rule: AlertRule
    at: datetime

    @property
    def since(self) -> datetime:
        """The beginning of its window."""
        return self.at - timedelta(seconds=self.rule.window_seconds or 0)

    @property
    def listed_since(self) -> datetime:
        """The beginning of the time in which its sessions are looked for."""
        return max(self.since, self.at - LONGEST_LISTED)

    def build_filter(self, since: datetime) -> GrowthFilter:
        """Return the calls that it is about."""
        scope = self.rule.where
        return GrowthFilter(
            blueprint=scope.blueprint,
            profile=scope.profile,
            kind=scope.kind,
            model=scope.model,
            since=since,
        )


async def measure_alert(connection: AsyncConnection, question: AlertQuestion) -> float | None:
    """Return what a rule measures; None where there was nothing to measure.

    The lag of the projector is no figure of the read models, and is not measured here.
    """
    return await _MEASURES[question.rule.measure](connection, question)


async def list_alert_sessions(
    connection: AsyncConnection, question: AlertQuestion
) -> tuple[str, ...]:
    """Return the sessions with the highest values, the highest first; at most ten."""
    select_sessions = _SESSIONS.get(question.rule.measure)
    if select_sessions is None:
        return ()
    found = await connection.execute(select_sessions(question).limit(MAX_ALERT_SESSIONS))
    return tuple(str(row.session) for row in found)


async def _measure_calls(
    connection: AsyncConnection, question: AlertQuestion, *, figure: str
) -> float | None:
    """Measure calls; there is nothing to measure where none were made."""
    hours = CALL_HOURS if figure == "cut_calls" else ATTEMPT_HOURS
    sought = question.build_filter(question.since)
    rows = await sum_calls(connection, question.tenant, sought, hours)
    if not rows:
        return None
    total = sum(int(row[figure]) for row in rows)
    return total / _MICRO if figure == "micro_dollars" else float(total)


async def _measure_lost_cost(connection: AsyncConnection, question: AlertQuestion) -> float | None:
    sought = question.build_filter(question.since)
    rows = await sum_calls(connection, question.tenant, sought, CACHE_HOURS)
    if not rows:
        return None
    return sum(int(row["micro_dollars"]) for row in rows) / _MICRO


async def _measure_failed_turns(
    connection: AsyncConnection, question: AlertQuestion
) -> float | None:
    counts = await _count_turns(connection, question)
    return float(counts.get("failed", 0)) if counts else None


async def _measure_failed_share(
    connection: AsyncConnection, question: AlertQuestion
) -> float | None:
    counts = await _count_turns(connection, question)
    settled = sum(counts.values())
    return counts.get("failed", 0) / settled if settled else None


async def _count_turns(connection: AsyncConnection, question: AlertQuestion) -> Mapping[str, int]:
    """Return how many turns of the window ended how."""
    status = TURNS.c.status
    found = (
        select(status, func.count().label("turns"))
        .where(*_match_turns(question, question.since), status.in_(_SETTLED))
        .group_by(status)
    )
    return {row.status: row.turns for row in await connection.execute(found)}


def _match_turns(question: AlertQuestion, since: datetime) -> Sequence[ColumnElement[bool]]:
    own = (
        match_tenant(TURNS, question.tenant),
        TURNS.c.submitted_at >= format_rfc3339(since),
        TURNS.c.counted,
    )
    conditions = [*_match_scope(question.rule.where)]
    if not conditions:
        return own
    of_turn = _join_rows(TURNS.c.build, TURNS.c.tenant, TURNS.c.session)
    return (*own, exists().where(of_turn, *conditions))


def _join_rows(*owner: ColumnElement[Any]) -> ColumnElement[bool]:
    columns = SESSIONS.c
    pairs = zip((columns.build, columns.tenant, columns.session), owner, strict=True)
    return and_(*(column == other for column, other in pairs))


def _match_scope(scope: AlertScope) -> Sequence[ColumnElement[bool]]:
    """Match the sessions that a rule is about."""
    named = [match_attribute(name, value) for name, value in scope.attributes.items()]
    if scope.blueprint is None:
        return named
    return (SESSIONS.c.blueprint == replace_nul(scope.blueprint), *named)


async def _measure_latency(connection: AsyncConnection, question: AlertQuestion) -> float | None:
    """Return the shortest time that 95 of 100 attempts did not exceed."""
    sought = question.build_filter(question.since)
    times = (
        select(
            ATTEMPTS.c.total_ms,
            func.row_number().over(order_by=ATTEMPTS.c.total_ms).label("place"),
            func.count().over().label("all"),
        )
        .select_from(_MEASURED_ATTEMPTS)
        .where(*sought.build_conditions(question.tenant))
        .subquery()
        .c
    )
    is_rank = and_(times.place * 100 >= times["all"] * 95)
    found = await connection.scalar(select(func.min(times.total_ms)).where(is_rank))
    return None if found is None else float(found)


_MEASURED_ATTEMPTS: Final = CALLS.join(SESSIONS, SESSION_OF_CALL).join(
    ATTEMPTS, MEASURED_ATTEMPT_OF_CALL
)


async def _measure_near_sessions(
    connection: AsyncConnection, question: AlertQuestion
) -> float | None:
    found = select(func.count()).where(*_match_near_sessions(question))
    return float(await connection.scalar(found) or 0)


def _match_near_sessions(question: AlertQuestion) -> Sequence[ColumnElement[bool]]:
    return (
        match_tenant(SESSIONS, question.tenant),
        IS_NEAR_BUDGET,
        *_match_scope(question.rule.where),
    )


async def _measure_stopped_sessions(
    connection: AsyncConnection, question: AlertQuestion
) -> float | None:
    stopped = _select_stopped_sessions(question).subquery()
    return float(await connection.scalar(select(func.count()).select_from(stopped)) or 0)


def _select_stopped_sessions(question: AlertQuestion) -> Select[Any]:
    """Select the sessions in quarantine, and those with messages that are no events."""
    quarantined = select(QUARANTINE.c.session).where(
        match_tenant(QUARANTINE, question.tenant), QUARANTINE.c.reason.is_not(None)
    )
    strays = select(STRAY_MESSAGES.c.session).where(match_tenant(STRAY_MESSAGES, question.tenant))
    found = union(quarantined, strays).subquery()
    return select(found.c.session).order_by(found.c.session)


def _select_call_sessions(question: AlertQuestion, *, figure: str) -> Select[Any]:
    """Select the sessions whose calls add most to a figure."""
    hours = {"cut_calls": CALL_HOURS, "lost": CACHE_HOURS}.get(figure, ATTEMPT_HOURS)
    name = "micro_dollars" if figure == "lost" else figure
    (each,) = (found for found in CALL_SUMS if found.hours is hours)
    sought = question.build_filter(question.listed_since)
    chosen = choose_calls(sought.build_conditions(question.tenant), ("session",))
    terms = each.select_terms(chosen, [chosen.c.session], "").subquery()
    return _rank_sessions(terms, sum_column(terms.c[name]))


def _rank_sessions(rows: Subquery, figure: ColumnElement[int]) -> Select[Any]:
    session = rows.c.session
    return select(session).group_by(session).having(figure > 0).order_by(figure.desc(), session)


def _select_failed_sessions(question: AlertQuestion) -> Select[Any]:
    columns, failed = TURNS.c, func.count()
    return (
        select(columns.session)
        .where(*_match_turns(question, question.listed_since), columns.status == "failed")
        .group_by(columns.session)
        .order_by(failed.desc(), columns.session)
    )


def _select_slow_sessions(question: AlertQuestion) -> Select[Any]:
    slowest = func.max(ATTEMPTS.c.total_ms)
    sought = question.build_filter(question.listed_since)
    return (
        select(CALLS.c.session)
        .select_from(_MEASURED_ATTEMPTS)
        .where(*sought.build_conditions(question.tenant))
        .group_by(CALLS.c.session)
        .order_by(slowest.desc(), CALLS.c.session)
    )


def _select_near_sessions(question: AlertQuestion) -> Select[Any]:
    columns = SESSIONS.c
    return (
        select(columns.session)
        .where(*_match_near_sessions(question))
        .order_by(columns.budget_share.desc(), columns.session)
    )


_Measuring = Callable[[AsyncConnection, AlertQuestion], Awaitable[float | None]]

_MEASURES: Final[Mapping[str, _Measuring]] = {
    "near_budget": _measure_near_sessions,
    "cut_calls": partial(_measure_calls, figure="cut_calls"),
    "prefix_lost_cost": _measure_lost_cost,
    "cost": partial(_measure_calls, figure="micro_dollars"),
    "failed_turns": _measure_failed_turns,
    "failed_share": _measure_failed_share,
    "p95_ms": _measure_latency,
    "unpriced": partial(_measure_calls, figure="unpriced_calls"),
    "stopped_sessions": _measure_stopped_sessions,
}

_SESSIONS: Final[Mapping[str, Callable[[AlertQuestion], Select[Any]]]] = {
    "near_budget": _select_near_sessions,
    "cut_calls": partial(_select_call_sessions, figure="cut_calls"),
    "prefix_lost_cost": partial(_select_call_sessions, figure="lost"),
    "cost": partial(_select_call_sessions, figure="micro_dollars"),
    "failed_turns": _select_failed_sessions,
    "failed_share": _select_failed_sessions,
    "p95_ms": _select_slow_sessions,
    "unpriced": partial(_select_call_sessions, figure="unpriced_calls"),
    "stopped_sessions": _select_stopped_sessions,
}
