"""What the children of a coordinator's turns took, beside what the turns took themselves.

Each attempt counts in the session that made it, and in no sum over sessions a second time. Here it
is found from the turn that asked for it, through as many coordinators as there are between them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import and_, select

from turnlog.projections.session_views.cost_totals import add_costs
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.read.cost_columns import USAGE_COLUMNS, build_usage
from turnlog.projections.store.read.row_filters import label_columns, match_tenant, read_figures
from turnlog.projections.store.read.row_types import TurnUsageTotal, UsageTotal
from turnlog.projections.store.schema.read_model_tables import ATTEMPTS, CHILD_TURNS


def add_usage(parts: Iterable[UsageTotal]) -> UsageTotal:
    """Return what all of these took together."""
    found = tuple(parts)
    return UsageTotal(
        input_tokens=sum(each.input_tokens for each in found),
        output_tokens=sum(each.output_tokens for each in found),
        total_tokens=sum(each.total_tokens for each in found),
        micro_dollars=sum(each.micro_dollars for each in found),
        unknown_attempts=sum(each.unknown_attempts for each in found),
        cost=add_costs(each.cost for each in found),
    )


async def sum_child_usage(
    connection: AsyncConnection, tenant: str, sessions: Sequence[str]
) -> Mapping[str, Mapping[int, UsageTotal]]:
    """Return what the children of these sessions took, by session and turn that asked them."""
    columns = CHILD_TURNS.c
    asked = (
        select(
            columns.session.label("parent"),
            columns.turn.label("parent_turn"),
            columns.child_session,
            columns.child_turn,
        )
        .where(match_tenant(CHILD_TURNS, tenant), columns.session.in_(sessions))
        .cte("asked", recursive=True)
    )
    # Without duplicates, so that even rows which name each other in a circle come to an end.
    asked = asked.union(
        select(
            asked.c.parent, asked.c.parent_turn, columns.child_session, columns.child_turn
        ).where(
            match_tenant(CHILD_TURNS, tenant),
            columns.session == asked.c.child_session,
            columns.turn == asked.c.child_turn,
        )
    )
    made = and_(
        match_tenant(ATTEMPTS, tenant),
        ATTEMPTS.c.session == asked.c.child_session,
        ATTEMPTS.c.turn == asked.c.child_turn,
        ATTEMPTS.c.copied.is_(False),
    )
    query = (
        select(asked.c.parent, asked.c.parent_turn, *label_columns(USAGE_COLUMNS))
        .select_from(asked)
        .join(ATTEMPTS, made)
        .group_by(asked.c.parent, asked.c.parent_turn)
        .order_by(asked.c.parent, asked.c.parent_turn)
    )
    found: defaultdict[str, dict[int, UsageTotal]] = defaultdict(dict)
    for row in (await connection.execute(query)).mappings():
        figures = read_figures(row, USAGE_COLUMNS)
        found[row["parent"]][row["parent_turn"]] = build_usage(figures)
    return found


async def list_turn_usage(
    connection: AsyncConnection, tenant: str, session: str
) -> tuple[TurnUsageTotal, ...]:
    """Return what each turn of a session took that asked children, in order."""
    children = (await sum_child_usage(connection, tenant, [session])).get(session, {})
    columns = ATTEMPTS.c
    query = (
        select(columns.turn, *label_columns(USAGE_COLUMNS))
        .where(
            match_tenant(ATTEMPTS, tenant),
            columns.session == session,
            columns.turn.in_(children),
            columns.copied.is_(False),
        )
        .group_by(columns.turn)
    )
    rows = (await connection.execute(query)).mappings()
    own = {row["turn"]: build_usage(read_figures(row, USAGE_COLUMNS)) for row in rows}
    return tuple(
        TurnUsageTotal(turn, own[turn], theirs, add_usage((own[turn], theirs)))
        for turn, theirs in children.items()
        if turn in own
    )
