"""The orders of a list of sessions, and where a page of it ends.

Sessions of equal rank come newest first, by the stream position of their opening, which is unique
and never changes. A page continues after the rank and the position of its last session. A session
whose rank changes meanwhile may be on two pages or on none; in the order of opening none can.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, and_, func, or_, select

from turnlog.events.errors import Refused
from turnlog.projections.store.read.row_filters import sum_column
from turnlog.projections.store.read.row_types import SessionPageMark
from turnlog.projections.store.schema.read_model_tables import ATTEMPTS, SESSIONS, TURNS

SessionOrder = Literal["opened", "last", "near", "cost", "failed"]
"""What comes first: the latest opened, the latest active, the nearest to its budget, the dearest,
or the one with most failed turns.
"""

_SESSION_COLUMNS: Final = SESSIONS.c

_COST: Final[ColumnElement[Any]] = (
    select(sum_column(ATTEMPTS.c.micro_dollars))
    .where(
        ATTEMPTS.c.build == _SESSION_COLUMNS.build,
        ATTEMPTS.c.tenant == _SESSION_COLUMNS.tenant,
        ATTEMPTS.c.session == _SESSION_COLUMNS.session,
        ATTEMPTS.c.copied.is_(False),
    )
    .scalar_subquery()
)

_FAILED_TURNS: Final[ColumnElement[Any]] = (
    select(func.count())
    .where(
        TURNS.c.build == _SESSION_COLUMNS.build,
        TURNS.c.tenant == _SESSION_COLUMNS.tenant,
        TURNS.c.session == _SESSION_COLUMNS.session,
        TURNS.c.status == "failed",
    )
    .scalar_subquery()
)

RANKS: Final[dict[SessionOrder, ColumnElement[Any]]] = {
    "opened": _SESSION_COLUMNS.opened_position,
    "last": _SESSION_COLUMNS.last_at,
    "near": func.coalesce(_SESSION_COLUMNS.budget_share, -1),
    "cost": _COST,
    "failed": _FAILED_TURNS,
}
"""By order: what sessions are sorted by, the highest first."""

_MARK: Final = re.compile(r"(?P<position>[1-9][0-9]{0,14})(?:\.(?P<rank>[0-9TZ:.+-]{1,40}))?")

_COUNT: Final = re.compile(r"-1|[0-9]{1,18}")


def format_page_mark(mark: SessionPageMark, order: SessionOrder) -> str:
    """Return the end of a page as the text that a client sends for the next one."""
    return f"{mark.position}" if order == "opened" else f"{mark.position}.{mark.rank}"


def build_page_condition(mark: SessionPageMark, order: SessionOrder) -> ColumnElement[bool]:
    """Return the condition that the sessions after a page meet."""
    rank, position = RANKS[order], _SESSION_COLUMNS.opened_position
    if order == "opened":
        return position < mark.position
    return or_(rank < mark.rank, and_(rank == mark.rank, position < mark.position))


def parse_page_mark(text: str, order: SessionOrder) -> SessionPageMark:
    """Return the end of a page from a client's text; refuses one of another order."""
    found = _MARK.fullmatch(text)
    position, rank = (int(found["position"]), found["rank"]) if found else (0, None)
    if order == "opened" and found and rank is None:
        return SessionPageMark(position, position)
    if order == "last" and rank is not None:
        return SessionPageMark(position, rank)
    if order not in {"opened", "last"} and rank is not None and _COUNT.fullmatch(rank):
        return SessionPageMark(position, int(rank))
    detail = f"it is no place in a list in the order `{order}`"
    fix = "send the `next` of the previous page, and its `order`"
    raise Refused("invalid", detail, field="before", fix=fix)
