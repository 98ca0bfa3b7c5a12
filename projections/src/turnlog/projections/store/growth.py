"""The token ledger: what each component used in each call, and what was saved.

The ledger is folded from manifests, so its figures are those of each call's own counter. A sum over
calls with different counters is only an approximation.
"""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime
from typing import Final, Literal

from sqlalchemy import BigInteger, ColumnElement, and_, cast, func, literal, select
from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.events.codec import rfc3339
from turnlog.projections.store.rows import CallGrowth, ComponentRow, GroupGrowth
from turnlog.projections.store.selecting import columns_of, of_session, of_tenant
from turnlog.projections.store.tables import CALLS, SESSIONS, WINDOW_PARTS

GroupBy = Literal["all", "blueprint", "profile", "kind", "model"]
"""How calls are grouped."""
_CALLS: Final = CALLS.c
_PARTS: Final = WINDOW_PARTS.c
_OF_CALL: Final = and_(
    _PARTS.build == _CALLS.build,
    _PARTS.tenant == _CALLS.tenant,
    _PARTS.session == _CALLS.session,
    _PARTS.call == _CALLS.call,
)
_OF_SESSION: Final = and_(
    SESSIONS.c.build == _CALLS.build,
    SESSIONS.c.tenant == _CALLS.tenant,
    SESSIONS.c.session == _CALLS.session,
)


async def of_calls(
    connection: AsyncConnection, tenant: str, session: str, since: datetime | None = None
) -> tuple[CallGrowth, ...]:
    """Return a session's calls in order, each with its components in prompt order."""
    held: defaultdict[str, list[ComponentRow]] = defaultdict(list)
    parts = (
        select(_PARTS.call, *columns_of(WINDOW_PARTS, ComponentRow))
        .where(of_session(WINDOW_PARTS, tenant, session))
        .order_by(_PARTS.place)
    )
    for row in (await connection.execute(parts)).mappings():
        told = {name: value for name, value in row.items() if name != "call"}
        held[row["call"]].append(ComponentRow(**told))
    calls = (
        select(*columns_of(CALLS, CallGrowth))
        .where(of_session(CALLS, tenant, session), *_later(since))
        .order_by(_CALLS.sequence)
    )
    return tuple(
        CallGrowth(
            **{**row, "optimizations": json.loads(row["optimizations"])},
            components=tuple(held[row["call"]]),
        )
        for row in (await connection.execute(calls)).mappings()
    )


async def of_groups(
    connection: AsyncConnection,
    tenant: str,
    by: GroupBy,
    since: datetime | None = None,
    session: str | None = None,
) -> tuple[GroupGrowth, ...]:
    """Return totals by group, for calls since a time, of one session or of all."""
    group = _group(by).label("group")
    of = of_tenant(CALLS, tenant) if session is None else of_session(CALLS, tenant, session)
    wanted = (of, *_later(since))
    whole = (
        select(group, func.count(), _sum(_CALLS.tokens), _sum(_CALLS.savings))
        .join_from(CALLS, SESSIONS, _OF_SESSION)
        .where(*wanted)
        .group_by(group)
        .order_by(group)
    )
    parts = (
        select(group, _PARTS.component, _sum(_PARTS.tokens), _sum(_PARTS.cut_turns))
        .join_from(CALLS, SESSIONS, _OF_SESSION)
        .join(WINDOW_PARTS, _OF_CALL)
        .where(*wanted)
        .group_by(group, _PARTS.component)
        .order_by(_PARTS.component)
    )
    held: defaultdict[str | None, list[tuple[str, int, int]]] = defaultdict(list)
    for name, component, tokens, cut_turns in await connection.execute(parts):
        held[name].append((component, tokens, cut_turns))
    return tuple(
        GroupGrowth(
            name,
            calls,
            tokens,
            savings,
            {component: taken for component, taken, _ in held[name]},
            sum(cut for _, _, cut in held[name]),
        )
        for name, calls, tokens, savings in await connection.execute(whole)
    )


def _later(since: datetime | None) -> tuple[ColumnElement[bool], ...]:
    return (_CALLS.at >= rfc3339(since),) if since else ()


def _group(by: GroupBy) -> ColumnElement[str | None]:
    match by:
        case "all":
            return literal(None)
        case "blueprint":
            return SESSIONS.c.blueprint
        case "profile" | "kind" | "model":
            return _CALLS[by]


def _sum(column: ColumnElement[int]) -> ColumnElement[int]:
    # Postgres returns a decimal sum; all of these are integers.
    return cast(func.coalesce(func.sum(column), 0), BigInteger)
