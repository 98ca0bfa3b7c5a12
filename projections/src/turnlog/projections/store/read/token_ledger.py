"""The token ledger: what each component used in each call, and what was saved.

The ledger is folded from manifests, so its figures are those of each call's own counter. A sum over
calls with different counters is only an approximation.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, Literal

from sqlalchemy import ColumnElement, and_, case, func, literal, select

from turnlog.events.codec import format_rfc3339
from turnlog.projections.blueprint.schema.layer_specs import RAG_COMPONENT
from turnlog.projections.session_views.cost_totals import NO_COST, CostTotal
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.read.cost_columns import COST_COLUMNS, build_cost_sum
from turnlog.projections.store.read.row_filters import (
    label_columns,
    match_session,
    match_tenant,
    read_figures,
    select_columns,
    sum_column,
)
from turnlog.projections.store.read.row_types import CallGrowth, GroupGrowth
from turnlog.projections.store.schema.read_model_tables import (
    ATTEMPTS,
    CALLS,
    SESSIONS,
    WINDOW_PARTS,
)

GrowthGrouping = Literal["all", "blueprint", "profile", "kind", "model"]
"""How calls are grouped."""

_CALL_COLUMNS: Final = CALLS.c

_PART_COLUMNS: Final = WINDOW_PARTS.c

_PARTS_OF_CALL: Final = and_(
    _PART_COLUMNS.build == _CALL_COLUMNS.build,
    _PART_COLUMNS.tenant == _CALL_COLUMNS.tenant,
    _PART_COLUMNS.session == _CALL_COLUMNS.session,
    _PART_COLUMNS.call == _CALL_COLUMNS.call,
)

_ATTEMPTS_OF_CALL: Final = and_(
    ATTEMPTS.c.build == _CALL_COLUMNS.build,
    ATTEMPTS.c.tenant == _CALL_COLUMNS.tenant,
    ATTEMPTS.c.session == _CALL_COLUMNS.session,
    ATTEMPTS.c.turn == _CALL_COLUMNS.turn,
    ATTEMPTS.c.call == _CALL_COLUMNS.call,
    ATTEMPTS.c.copied.is_(False),
)

_SESSION_OF_CALL: Final = and_(
    SESSIONS.c.build == _CALL_COLUMNS.build,
    SESSIONS.c.tenant == _CALL_COLUMNS.tenant,
    SESSIONS.c.session == _CALL_COLUMNS.session,
)


async def list_call_growth(
    connection: AsyncConnection, tenant: str, session: str, since: datetime | None = None
) -> tuple[CallGrowth, ...]:
    """Return a session's calls in order, each with its components in prompt order."""
    components_by_call: defaultdict[str, dict[str, int]] = defaultdict(dict)
    cut_turns_by_call: defaultdict[str, int] = defaultdict(int)
    parts = (
        select(
            _PART_COLUMNS.call,
            _PART_COLUMNS.component,
            _PART_COLUMNS.tokens,
            _PART_COLUMNS.cut_turns,
        )
        .where(match_session(WINDOW_PARTS, tenant, session))
        .order_by(_PART_COLUMNS.place)
    )
    for call, component, tokens, cut_turns in await connection.execute(parts):
        components_by_call[call][component] = tokens
        cut_turns_by_call[call] += cut_turns
    calls = (
        select(*select_columns(CALLS, CallGrowth))
        .where(match_session(CALLS, tenant, session), *_build_since_condition(since))
        .order_by(_CALL_COLUMNS.sequence)
    )
    return tuple(
        CallGrowth(
            **{**row, "optimizations": json.loads(row["optimizations"])},
            components=components_by_call[row["call"]],
            cut_turns=cut_turns_by_call[row["call"]],
        )
        for row in (await connection.execute(calls)).mappings()
    )


async def list_group_growth(
    connection: AsyncConnection,
    tenant: str,
    by: GrowthGrouping,
    since: datetime | None = None,
    session: str | None = None,
) -> tuple[GroupGrowth, ...]:
    """Return totals by group, for calls since a time, of one session or of all.

    What a fork copied counts in the session that made it.
    """
    group = _choose_group_column(by).label("group")
    of = match_tenant(CALLS, tenant) if session is None else match_session(CALLS, tenant, session)
    conditions = (of, _CALL_COLUMNS.copied.is_(False), *_build_since_condition(since))
    totals = (
        select(
            group,
            func.count(),
            sum_column(_CALL_COLUMNS.tokens),
            sum_column(_CALL_COLUMNS.savings),
        )
        .join_from(CALLS, SESSIONS, _SESSION_OF_CALL)
        .where(*conditions)
        .group_by(group)
        .order_by(group)
    )
    parts = (
        select(
            group,
            _PART_COLUMNS.component,
            sum_column(_PART_COLUMNS.tokens),
            sum_column(_PART_COLUMNS.cut_turns),
            func.avg(case((_PART_COLUMNS.parts > 0, 1.0), else_=0.0)),
        )
        .join_from(CALLS, SESSIONS, _SESSION_OF_CALL)
        .join(WINDOW_PARTS, _PARTS_OF_CALL)
        .where(*conditions)
        .group_by(group, _PART_COLUMNS.component)
        .order_by(_PART_COLUMNS.component)
    )
    cost_by_group = await _sum_group_costs(connection, group, conditions)
    components_by_group: defaultdict[str | None, list[tuple[str, int, int]]] = defaultdict(list)
    hit_rates: dict[str | None, float] = {}
    for name, component, tokens, cut_turns, included_share in await connection.execute(parts):
        components_by_group[name].append((component, tokens, cut_turns))
        if component == RAG_COMPONENT:
            hit_rates[name] = float(included_share)
    return tuple(
        GroupGrowth(
            group=name,
            calls=calls,
            tokens=tokens,
            savings=savings,
            components={component: taken for component, taken, _ in components_by_group[name]},
            cut_turns=sum(cut for _, _, cut in components_by_group[name]),
            cost=cost_by_group.get(name, NO_COST),
            retrieval_hit_rate=hit_rates.get(name),
        )
        for name, calls, tokens, savings in await connection.execute(totals)
    )


async def _sum_group_costs(
    connection: AsyncConnection,
    group: ColumnElement[str | None],
    conditions: Iterable[ColumnElement[bool]],
) -> Mapping[str | None, CostTotal]:
    costs = (
        select(group, *label_columns(COST_COLUMNS))
        .join_from(CALLS, SESSIONS, _SESSION_OF_CALL)
        .join(ATTEMPTS, _ATTEMPTS_OF_CALL)
        .where(*conditions)
        .group_by(group)
    )
    return {
        row["group"]: build_cost_sum(read_figures(row, COST_COLUMNS))
        for row in (await connection.execute(costs)).mappings()
    }


def _build_since_condition(since: datetime | None) -> tuple[ColumnElement[bool], ...]:
    return (_CALL_COLUMNS.at >= format_rfc3339(since),) if since else ()


def _choose_group_column(by: GrowthGrouping) -> ColumnElement[str | None]:
    match by:
        case "all":
            return literal(None)
        case "blueprint":
            return SESSIONS.c.blueprint
        case "profile" | "kind" | "model":
            return _CALL_COLUMNS[by]
