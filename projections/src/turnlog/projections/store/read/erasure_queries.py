"""What the read models know for erasures: forks and children of a session, and open erasures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import or_, select

from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.read.row_filters import match_tenant
from turnlog.projections.store.schema.read_model_tables import SESSIONS, TURNS
from turnlog.projections.store.write.projection_positions import read_active_position


class OpenErasure(NamedTuple):
    """An erasure that was begun and has not ended."""

    tenant: str
    session: str
    begun: int
    """Sequence of the event that began it."""


async def list_open_erasures(connection: AsyncConnection, most: int) -> Sequence[OpenErasure]:
    """Return erasures of all tenants that have not ended, the oldest sessions first."""
    active = await read_active_position(connection)
    if active is None:
        return ()
    rows = SESSIONS.c
    query = (
        select(rows.tenant, rows.session, rows.erasing)
        .where(rows.build == active.build, rows.erasing.is_not(None))
        .order_by(rows.opened_position)
        .limit(most)
    )
    return [OpenErasure(*row) for row in await connection.execute(query)]


async def list_forks(connection: AsyncConnection, tenant: str, session: str) -> Sequence[str]:
    """Return the sessions that were forked from a session, the oldest first."""
    rows = SESSIONS.c
    query = select(rows.session).where(
        match_tenant(SESSIONS, tenant),
        rows.origin_session == session,
        rows.origin_kind == "fork",
    )
    return (await connection.scalars(query.order_by(rows.opened_position))).all()


async def list_sessions_of_user(
    connection: AsyncConnection, tenant: str, user: str
) -> Sequence[str]:
    """Return all sessions that a user owns or asked something in, the oldest first."""
    asked = select(TURNS.c.session).where(match_tenant(TURNS, tenant), TURNS.c.asked_by == user)
    rows = SESSIONS.c
    query = select(rows.session).where(
        match_tenant(SESSIONS, tenant),
        or_(rows.owner == user, rows.session.in_(asked)),
    )
    return (await connection.scalars(query.order_by(rows.opened_position))).all()
