"""What turns used: tokens, cost, retrieval and what it saved, by user, day and other groups.

Nothing is added up when events arrive. Each figure is that of the rows of turns and attempts, so a
rebuild from the log gives the same. Turns and attempts that a fork copied count where they were
made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Subquery, and_, case, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.events.codec import format_rfc3339
from turnlog.projections.read_models.call_costs import CostSum
from turnlog.projections.store.read.cost_columns import IS_GUESSED, IS_UNPRICED
from turnlog.projections.store.read.row_filters import match_tenant, sum_column
from turnlog.projections.store.read.row_types import UsageRow
from turnlog.projections.store.schema.read_model_tables import (
    ATTEMPTS,
    CALLS,
    RETRIEVED_ENTRIES,
    SESSIONS,
    TURNS,
)

UsageGrouping = Literal["all", "user", "profile", "blueprint", "model", "day", "hour"]
"""How turns are grouped."""


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """The turns whose usage is asked for."""

    user: str | None = None
    since: datetime | None = None
    """Only turns submitted at this time or later."""
    until: datetime | None = None
    """Only turns submitted before this time."""


_LENGTH_BY_GROUPING: Final[Mapping[str, int]] = {
    "day": len("2026-11-23"),
    "hour": len("2026-11-23T08"),
}


async def list_usage(
    connection: AsyncConnection, tenant: str, by: UsageGrouping, sought: UsageFilter
) -> tuple[UsageRow, ...]:
    """Return what the turns of each group used, ordered by the group."""
    turns = _select_turns(tenant)
    column = turns.c
    group = _choose_group_column(turns, by).label("group")
    saved = case(
        (
            and_(column.guided == 1, column.previous_output > column.output_tokens),
            column.previous_output - column.output_tokens,
        ),
    )
    query = (
        select(
            group,
            func.count().label("turns"),
            func.count().filter(column.status == "completed").label("completed"),
            func.count().filter(column.status == "failed").label("failed"),
            func.count().filter(column.status == "cancelled").label("cancelled"),
            func.count().filter(column.guided == 1).label("guided"),
            sum_column(column.input_tokens).label("input_tokens"),
            sum_column(column.output_tokens).label("output_tokens"),
            sum_column(column.unknown_attempts).label("unknown_attempts"),
            sum_column(saved).label("saved_tokens"),
            func.count(saved).label("saving_turns"),
            sum_column(column.micro_dollars).label("micro_dollars"),
            sum_column(column.priced_attempts).label("priced_attempts"),
            sum_column(column.guessed_attempts).label("guessed_attempts"),
            sum_column(column.unpriced_attempts).label("unpriced_attempts"),
        )
        .where(*_build_conditions(turns, sought))
        .group_by(group)
        .order_by(group.nulls_first())
    )
    return tuple(_build_row(row) for row in (await connection.execute(query)).mappings())


def _select_turns(tenant: str) -> Subquery:
    """Select every turn that somebody asked for, with the output of the turn before it."""
    spent = _select_spent(tenant)
    retrieved = (
        select(RETRIEVED_ENTRIES.c.session, RETRIEVED_ENTRIES.c.turn)
        .where(match_tenant(RETRIEVED_ENTRIES, tenant))
        .distinct()
        .subquery()
    )
    columns = TURNS.c
    of_session = and_(
        SESSIONS.c.build == columns.build,
        SESSIONS.c.tenant == columns.tenant,
        SESSIONS.c.session == columns.session,
    )
    last_call = and_(
        CALLS.c.build == columns.build,
        CALLS.c.tenant == columns.tenant,
        CALLS.c.session == columns.session,
        CALLS.c.call == spent.c.call,
    )
    of_turn = and_(spent.c.session == columns.session, spent.c.turn == columns.turn)
    guided = and_(retrieved.c.session == columns.session, retrieved.c.turn == columns.turn)
    figures = [each for each in spent.c if each.name not in {"session", "turn", "call"}]
    previous = func.lag(spent.c.output_tokens).over(
        partition_by=columns.session, order_by=columns.turn
    )
    return (
        select(
            columns.asked_by,
            columns.status,
            columns.submitted_at,
            SESSIONS.c.blueprint,
            func.coalesce(CALLS.c.profile, SESSIONS.c.profile).label("profile"),
            CALLS.c.model,
            case((retrieved.c.turn.is_not(None), 1), else_=0).label("guided"),
            previous.label("previous_output"),
            *figures,
        )
        .select_from(TURNS)
        .join(SESSIONS, of_session)
        .outerjoin(spent, of_turn)
        .outerjoin(CALLS, last_call)
        .outerjoin(retrieved, guided)
        .where(match_tenant(TURNS, tenant), columns.counted.is_(True))
        .subquery()
    )


def _select_spent(tenant: str) -> Subquery:
    """Select what the attempts of each turn used, and one of its calls."""
    columns = ATTEMPTS.c
    unknown = and_(columns.ended_at.is_not(None), columns.known == "unknown")
    return (
        select(
            columns.session,
            columns.turn,
            func.max(columns.call).label("call"),
            func.sum(columns.input_tokens).label("input_tokens"),
            func.sum(columns.output_tokens).label("output_tokens"),
            func.count().filter(unknown).label("unknown_attempts"),
            func.sum(columns.micro_dollars).label("micro_dollars"),
            func.count(columns.micro_dollars).label("priced_attempts"),
            func.count().filter(IS_GUESSED).label("guessed_attempts"),
            func.count().filter(IS_UNPRICED).label("unpriced_attempts"),
        )
        .where(match_tenant(ATTEMPTS, tenant), columns.copied.is_(False))
        .group_by(columns.session, columns.turn)
        .subquery()
    )


def _choose_group_column(turns: Subquery, by: UsageGrouping) -> ColumnElement[Any]:
    match by:
        case "all":
            return literal(None)
        case "user":
            return turns.c.asked_by
        case "profile" | "blueprint" | "model":
            return turns.c[by]
        case "day" | "hour":
            return func.substr(turns.c.submitted_at, 1, _LENGTH_BY_GROUPING[by])


def _build_conditions(turns: Subquery, sought: UsageFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if sought.user is not None:
        conditions.append(turns.c.asked_by == sought.user)
    if sought.since is not None:
        conditions.append(turns.c.submitted_at >= format_rfc3339(sought.since))
    if sought.until is not None:
        conditions.append(turns.c.submitted_at < format_rfc3339(sought.until))
    return conditions


def _build_row(row: Mapping[Any, Any]) -> UsageRow:
    cost = CostSum(
        row["micro_dollars"] if row["priced_attempts"] or not row["unpriced_attempts"] else None,
        row["guessed_attempts"] > 0,
        row["unpriced_attempts"],
    )
    names = (
        "group",
        "turns",
        "completed",
        "failed",
        "cancelled",
        "guided",
        "input_tokens",
        "output_tokens",
        "unknown_attempts",
        "saved_tokens",
        "saving_turns",
    )
    return UsageRow(**{name: row[name] for name in names}, cost=cost)
