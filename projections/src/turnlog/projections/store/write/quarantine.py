"""Quarantine: events that stopped their session, and later ones of it that wait.

It holds the stored bytes, so that a session can be replayed after a fix in one transaction and
without the log. A session is stopped as long as one of its quarantined events has a reason.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import and_, delete, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.events.store.ports import RawEvent
from turnlog.projections.store.schema.read_model_tables import QUARANTINE
from turnlog.projections.store.write.batch_fold import SessionOwner

_QUARANTINE_COLUMNS = QUARANTINE.c


@dataclass(frozen=True, slots=True)
class StoppedSession:
    """A stopped session."""

    tenant: str
    session: str
    position: int
    """Stream sequence of the event that stopped the session."""
    reason: str
    held_back: int
    """Number of later events of the session that wait."""


async def find_stopped_among(
    connection: AsyncConnection, build: int, owners: Collection[SessionOwner]
) -> set[SessionOwner]:
    """Return which of these sessions are stopped."""
    found = select(_QUARANTINE_COLUMNS.tenant, _QUARANTINE_COLUMNS.session).where(
        _QUARANTINE_COLUMNS.build == build,
        _QUARANTINE_COLUMNS.reason.is_not(None),
        tuple_(_QUARANTINE_COLUMNS.tenant, _QUARANTINE_COLUMNS.session).in_(owners),
    )
    return {(row.tenant, row.session) for row in await connection.execute(found)}


async def list_stopped_sessions(
    connection: AsyncConnection, build: int
) -> Sequence[StoppedSession]:
    """Return all stopped sessions, in the order in which they stopped."""
    owner = (_QUARANTINE_COLUMNS.tenant, _QUARANTINE_COLUMNS.session)
    found = (
        select(
            *owner,
            func.min(_QUARANTINE_COLUMNS.position).label("position"),
            func.max(_QUARANTINE_COLUMNS.reason).label("reason"),
            (func.count() - 1).label("held_back"),
        )
        .where(_QUARANTINE_COLUMNS.build == build)
        .group_by(*owner)
        .order_by(func.min(_QUARANTINE_COLUMNS.position))
    )
    return [StoppedSession(**row) for row in (await connection.execute(found)).mappings()]


async def release_events(
    connection: AsyncConnection, build: int, owner: SessionOwner
) -> list[RawEvent]:
    """Remove a session's events from quarantine, and return them in stored order."""
    tenant, session = owner
    ours = and_(
        _QUARANTINE_COLUMNS.build == build,
        _QUARANTINE_COLUMNS.tenant == tenant,
        _QUARANTINE_COLUMNS.session == session,
    )
    found = await connection.execute(
        select(QUARANTINE).where(ours).order_by(_QUARANTINE_COLUMNS.position)
    )
    raws = [RawEvent(row.subject, row.position, row.stored) for row in found]
    await connection.execute(delete(QUARANTINE).where(ours))
    return raws
