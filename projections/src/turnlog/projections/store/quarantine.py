"""Quarantine: events that stopped their session, and later ones of it that wait.

It holds the stored bytes, so that a session can be replayed after a fix in one transaction and
without the log. A session is stopped as long as one of its quarantined events has a reason.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import and_, delete, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.events.log.ports import Raw
from turnlog.projections.store.fold import Owner
from turnlog.projections.store.tables import QUARANTINE

_ROWS = QUARANTINE.c


@dataclass(frozen=True, slots=True)
class Halted:
    """A stopped session."""

    tenant: str
    session: str
    position: int
    """Stream sequence of the event that stopped the session."""
    reason: str
    held_back: int
    """Number of later events of the session that wait."""


async def halted_among(
    connection: AsyncConnection, build: int, owners: Collection[Owner]
) -> set[Owner]:
    """Return which of these sessions are stopped."""
    found = select(_ROWS.tenant, _ROWS.session).where(
        _ROWS.build == build,
        _ROWS.reason.is_not(None),
        tuple_(_ROWS.tenant, _ROWS.session).in_(owners),
    )
    return {(row.tenant, row.session) for row in await connection.execute(found)}


async def halted(connection: AsyncConnection, build: int) -> Sequence[Halted]:
    """Return all stopped sessions, in the order in which they stopped."""
    owner = (_ROWS.tenant, _ROWS.session)
    found = (
        select(
            *owner,
            func.min(_ROWS.position).label("position"),
            func.max(_ROWS.reason).label("reason"),
            (func.count() - 1).label("held_back"),
        )
        .where(_ROWS.build == build)
        .group_by(*owner)
        .order_by(func.min(_ROWS.position))
    )
    return [Halted(**row) for row in (await connection.execute(found)).mappings()]


async def released(connection: AsyncConnection, build: int, owner: Owner) -> list[Raw]:
    """Remove a session's events from quarantine, and return them in stored order."""
    tenant, session = owner
    ours = and_(_ROWS.build == build, _ROWS.tenant == tenant, _ROWS.session == session)
    found = await connection.execute(select(QUARANTINE).where(ours).order_by(_ROWS.position))
    raws = [Raw(row.subject, row.position, row.stored) for row in found]
    await connection.execute(delete(QUARANTINE).where(ours))
    return raws
