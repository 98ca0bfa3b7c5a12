"""What turns used: tokens, cost, retrieval and what it saved, by user, day and other groups.

Nothing is added up when events arrive. Each figure is that of the rows of turns and attempts, so a
rebuild from the log gives the same. Turns and attempts that a fork copied count where they were
made.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final, Literal

from sqlalchemy import (
    ColumnElement,
    RowMapping,
    ScalarSelect,
    Subquery,
    and_,
    case,
    exists,
    func,
    literal,
    null,
    select,
)

from turnlog.events.codec import format_rfc3339
from turnlog.projections.session_views.cost_totals import CostTotal, add_costs
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.read.cost_columns import COST_COLUMNS
from turnlog.projections.store.read.row_filters import (
    label_columns,
    match_tenant,
    read_figures,
    sum_column,
)
from turnlog.projections.store.read.row_types import UsageFigures, UsageRow
from turnlog.projections.store.schema.read_model_tables import (
    ATTEMPTS,
    ATTRIBUTES,
    CALLS,
    RETRIEVED_ENTRIES,
    SESSIONS,
    TURNS,
    replace_nul,
)


@dataclass(frozen=True, slots=True)
class AttributeGrouping:
    """Turns are grouped by the value of an attribute of their session."""

    name: str


UsageGrouping = (
    Literal["all", "user", "profile", "blueprint", "model", "day", "hour", "failure"]
    | AttributeGrouping
)
"""How turns are grouped; a failure is the code of one that failed."""


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """The turns whose usage is requested."""

    user: str | None = None
    since: datetime | None = None
    """Only turns submitted at this time or later."""
    until: datetime | None = None
    """Only turns submitted before this time."""


_COUNTED: Final = tuple(each.name for each in fields(UsageFigures) if each.name != "cost")

_TOKEN_COLUMNS: Final = ("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens")

_LENGTH_BY_GROUPING: Final[Mapping[str, int]] = {
    "day": len("2026-11-23"),
    "hour": len("2026-11-23T08"),
}


async def list_usage(
    connection: AsyncConnection, tenant: str, by: UsageGrouping, sought: UsageFilter
) -> tuple[UsageRow, ...]:
    """Return what the turns of each group used, by group, model and profile.

    One scan of the turns sought answers for the groups and for all of them together.
    """
    turns = _select_turns(tenant, sought, by)
    column = turns.c
    group = _choose_group_column(turns, by).label("group")
    saved = (
        case((column.previous_output > column.output_tokens, column.previous_output))
        - column.output_tokens
    )
    query = (
        select(
            group,
            func.min(column.attributes).label("attributes"),
            column.model,
            column.profile,
            func.count().label("turns"),
            func.count().filter(column.status == "completed").label("completed"),
            func.count().filter(column.status == "failed").label("failed"),
            func.count().filter(column.status == "cancelled").label("cancelled"),
            func.count().filter(column.guided == 1).label("guided"),
            *(sum_column(column[name]).label(name) for name in _TOKEN_COLUMNS),
            sum_column(column.unknown_attempts).label("unknown_attempts"),
            sum_column(saved).label("saved_tokens"),
            func.count(saved).label("saving_turns"),
            *(sum_column(column[name]).label(name) for name in COST_COLUMNS),
        )
        .group_by(group, column.model, column.profile)
        .order_by(*(each.nulls_first() for each in (group, column.model, column.profile)))
    )
    rows = (await connection.execute(query)).mappings()
    return tuple(_build_row(row, _name_group(row, by)) for row in rows)


def _select_turns(tenant: str, sought: UsageFilter, by: UsageGrouping) -> Subquery:
    """Select every turn that somebody asked for, with its last call.

    A turn that retrieved something has the output of the turn before it, to be compared with. The
    attributes are those of its session, where turns are grouped by one that the session has.
    """
    turns = _select_spent(tenant, sought)
    columns = turns.c
    last = ATTEMPTS.alias()
    last_attempt = and_(
        match_tenant(last, tenant),
        last.c.session == columns.session,
        last.c.turn == columns.turn,
        last.c.attempt == columns.last_attempt,
    )
    last_call = and_(
        match_tenant(CALLS, tenant),
        CALLS.c.session == columns.session,
        CALLS.c.call == last.c.call,
    )
    of_session = and_(match_tenant(SESSIONS, tenant), SESSIONS.c.session == columns.session)
    attribute = _select_attribute(tenant, by) if isinstance(by, AttributeGrouping) else null()
    return (
        select(
            *columns,
            SESSIONS.c.blueprint,
            attribute.label("attribute"),
            case((attribute.is_not(None), SESSIONS.c.attributes)).label("attributes"),
            func.coalesce(CALLS.c.profile, SESSIONS.c.profile).label("profile"),
            CALLS.c.model,
            case((columns.guided == 1, _select_previous_output(tenant, turns))).label(
                "previous_output"
            ),
        )
        .select_from(turns)
        .join(SESSIONS, of_session)
        .outerjoin(last, last_attempt)
        .outerjoin(CALLS, last_call)
        .subquery()
    )


def _select_spent(tenant: str, sought: UsageFilter) -> Subquery:
    """Select the turns sought, what the attempts of each used, and which was the last of them."""
    columns, spent = TURNS.c, ATTEMPTS.c
    of_turn = and_(
        match_tenant(ATTEMPTS, tenant),
        spent.session == columns.session,
        spent.turn == columns.turn,
        spent.copied.is_(False),
    )
    retrieved = exists().where(
        match_tenant(RETRIEVED_ENTRIES, tenant),
        RETRIEVED_ENTRIES.c.session == columns.session,
        RETRIEVED_ENTRIES.c.turn == columns.turn,
    )
    unknown = and_(spent.ended_at.is_not(None), spent.known == "unknown")
    return (
        select(
            columns.session,
            columns.turn,
            columns.asked_by,
            columns.status,
            columns.submitted_at,
            columns.failure,
            case((retrieved, 1), else_=0).label("guided"),
            func.max(spent.attempt).label("last_attempt"),
            *(func.sum(spent[name]).label(name) for name in _TOKEN_COLUMNS),
            func.count().filter(unknown).label("unknown_attempts"),
            *label_columns(COST_COLUMNS),
        )
        .select_from(TURNS)
        .outerjoin(ATTEMPTS, of_turn)
        .where(match_tenant(TURNS, tenant), columns.counted.is_(True))
        .where(*_build_conditions(sought))
        # By its key, in whose order SQLite reads; the other columns of a turn follow from it.
        .group_by(*TURNS.primary_key.columns)
        .subquery()
    )


def _select_attribute(tenant: str, by: AttributeGrouping) -> ScalarSelect[str]:
    """Select the digest of an attribute's value that is in force in the session."""
    return (
        select(ATTRIBUTES.c.digest)
        .where(
            match_tenant(ATTRIBUTES, tenant),
            ATTRIBUTES.c.session == SESSIONS.c.session,
            ATTRIBUTES.c.name == replace_nul(by.name),
            ATTRIBUTES.c.given_in == SESSIONS.c.blueprint_in,
        )
        .scalar_subquery()
        .correlate(SESSIONS)
    )


def _select_previous_output(tenant: str, turns: Subquery) -> ScalarSelect[int]:
    """Select the output tokens of the previous counted turn of the same session."""
    before, spent = TURNS.alias(), ATTEMPTS.alias()
    previous = (
        select(func.max(before.c.turn))
        .where(
            match_tenant(before, tenant),
            before.c.session == turns.c.session,
            before.c.turn < turns.c.turn,
            before.c.counted.is_(True),
        )
        .scalar_subquery()
        .correlate(turns)
    )
    return (
        select(func.sum(spent.c.output_tokens))
        .where(
            match_tenant(spent, tenant),
            spent.c.session == turns.c.session,
            spent.c.turn == previous,
            spent.c.copied.is_(False),
        )
        .scalar_subquery()
        .correlate(turns)
    )


def _choose_group_column(turns: Subquery, by: UsageGrouping) -> ColumnElement[Any]:
    match by:
        case "all":
            return literal(None)
        case "user":
            return turns.c.asked_by
        case "profile" | "blueprint" | "model" | "failure":
            return turns.c[by]
        case "day" | "hour":
            return func.substr(turns.c.submitted_at, 1, _LENGTH_BY_GROUPING[by])
        case AttributeGrouping():
            return turns.c.attribute


def _build_conditions(sought: UsageFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if sought.user is not None:
        conditions.append(TURNS.c.asked_by == sought.user)
    if sought.since is not None:
        conditions.append(TURNS.c.submitted_at >= format_rfc3339(sought.since))
    if sought.until is not None:
        conditions.append(TURNS.c.submitted_at < format_rfc3339(sought.until))
    return conditions


def _name_group(row: RowMapping, by: UsageGrouping) -> str | None:
    """Return the name of a row's group; a value of an attribute that is no text is named as JSON.

    The sessions of such a group have the same value, since it has the same digest.
    """
    if not isinstance(by, AttributeGrouping) or row["group"] is None:
        group: str | None = row["group"]
        return group
    value = json.loads(row["attributes"])[by.name]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _build_row(row: RowMapping, group: str | None) -> UsageRow:
    cost = CostTotal(
        row["micro_dollars"] if row["priced_attempts"] or not row["unpriced_calls"] else None,
        row["guessed_attempts"] > 0,
        row["unpriced_calls"],
    )
    figures = UsageFigures(**read_figures(row, _COUNTED), cost=cost)
    return UsageRow(group, row["model"], row["profile"], figures)


def add_figures(parts: Iterable[UsageFigures]) -> UsageFigures:
    """Return what all these turns used."""
    found = tuple(parts)
    sums = {name: sum(getattr(each, name) for each in found) for name in _COUNTED}
    return UsageFigures(**sums, cost=add_costs(each.cost for each in found))
