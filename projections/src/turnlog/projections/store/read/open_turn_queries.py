"""How many turns of a tenant are open, and how many of them wait for a person."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import and_, func, select

from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.read.overview_queries import count_turns_in_flight
from turnlog.projections.store.read.row_filters import match_tenant
from turnlog.projections.store.schema.read_model_tables import APPROVALS, TURNS
from turnlog.projections.store.write.projection_positions import read_active_position


@dataclass(frozen=True, slots=True)
class OpenTurnCounts:
    """The open and queued turns of a tenant."""

    active: int
    """Those that wait for nobody but workers."""
    waiting: int
    """Those that wait for a person's approval."""
    position: int
    """The stream sequence up to which turns are counted."""


async def count_open_turns(connection: AsyncConnection, tenant: str) -> OpenTurnCounts:
    """Return how many turns of a tenant are not over."""
    at = await read_active_position(connection)
    own = APPROVALS.c
    turn = and_(
        *(TURNS.c[name] == own[name] for name in ("build", "tenant", "session", "turn")),
        TURNS.c.status == "open",
    )
    waiting = select(func.count()).select_from(
        select(own.session, own.turn)
        .distinct()
        .join(TURNS, turn)
        .where(match_tenant(APPROVALS, tenant), own.decision.is_(None))
        .subquery()
    )
    found = await connection.scalar(waiting) or 0
    in_flight = await count_turns_in_flight(connection, tenant)
    return OpenTurnCounts(max(0, in_flight - found), found, at.position if at else 0)
