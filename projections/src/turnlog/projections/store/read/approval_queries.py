"""The approvals of a tenant, newest request first: those that wait for a person, or decided ones.

A page continues after the stream position of its last request, which never changes. The texts are
not in the rows: what is to be approved is on the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, assert_never

from sqlalchemy import RowMapping, Table, and_, select
from sqlalchemy.sql.elements import ColumnElement

from turnlog.events.codec import format_rfc3339
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.read.row_filters import match_tenant, select_columns
from turnlog.projections.store.read.row_types import ApprovalRow, ApprovalRowPage
from turnlog.projections.store.schema.read_model_tables import APPROVALS, SESSIONS, TURNS

APPROVAL_PAGE_SIZE: Final = 50

ApprovalStatus = Literal["pending", "approved", "refused"]
"""Whether an approval waits for a person, or how it was decided."""


@dataclass(frozen=True, slots=True)
class ApprovalQuery:
    """Which approvals to list; a condition that is None is not applied."""

    state: ApprovalStatus = "pending"
    user: str | None = None
    """The user who submitted the turn."""
    since: datetime | None = None
    """It was requested at or after this time."""


async def list_approvals(
    connection: AsyncConnection,
    tenant: str,
    query: ApprovalQuery,
    *,
    limit: int = APPROVAL_PAGE_SIZE,
    before: int | None = None,
) -> ApprovalRowPage:
    """Return a page of approvals; `before` is that of the previous page.

    One that nobody decided while its turn was open is in no list.
    """
    found = (
        select(*select_columns(APPROVALS, ApprovalRow), APPROVALS.c.position, TURNS.c.asked_by)
        .join(TURNS, and_(_match_owner(TURNS), TURNS.c.turn == APPROVALS.c.turn))
        .join(SESSIONS, _match_owner(SESSIONS))
        .where(match_tenant(APPROVALS, tenant), *_build_conditions(query))
        .order_by(APPROVALS.c.position.desc())
        .limit(limit + 1)
    )
    if before is not None:
        found = found.where(APPROVALS.c.position < before)
    rows = (await connection.execute(found)).mappings().all()
    last = rows[limit - 1]["position"] if len(rows) > limit else None
    return ApprovalRowPage(tuple(map(_build_row, rows[:limit])), last)


def _build_conditions(query: ApprovalQuery) -> Iterator[ColumnElement[bool]]:
    match query.state:
        case "pending":
            yield APPROVALS.c.decision.is_(None)
            yield TURNS.c.status == "open"
            yield SESSIONS.c.closed_at.is_(None)
        case "approved":
            yield APPROVALS.c.decision == "approve"
        case "refused":
            yield APPROVALS.c.decision == "refuse"
        case _ as never:
            assert_never(never)
    if query.user is not None:
        yield TURNS.c.asked_by == query.user
    if query.since is not None:
        yield APPROVALS.c.requested_at >= format_rfc3339(query.since)


def _build_row(row: RowMapping) -> ApprovalRow:
    return ApprovalRow(**{name: value for name, value in row.items() if name != "position"})


def _match_owner(table: Table) -> ColumnElement[bool]:
    """Match the rows of the session that an approval belongs to."""
    own = APPROVALS.c
    return and_(
        table.c.build == own.build, table.c.tenant == own.tenant, table.c.session == own.session
    )
