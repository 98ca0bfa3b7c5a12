"""Quarantine: events that stopped their session, and later ones of it that wait.

It holds the stored bytes, so that a session can be replayed after a fix in one transaction and
without the log. A session is stopped as long as one of its quarantined events has a reason.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pydantic import JsonValue
from sqlalchemy import ColumnElement, Connection, and_, delete, func, select, tuple_

from turnlog.events.store.ports import RawEvent
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.schema.read_model_tables import QUARANTINE, STRAY_MESSAGES
from turnlog.projections.store.write.quarantining_fold import SessionOwner

_QUARANTINE_COLUMNS = QUARANTINE.c


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedEvent:
    """An event in quarantine, with what its stored bytes say about it if they can be read."""

    position: int
    """Stream sequence."""
    reason: str | None
    """Why it was not folded; None if it only waits."""
    sequence: int | None
    """Sequence within the session."""
    type: str | None
    """Wire type."""
    time: str | None
    """When it was recorded, RFC 3339."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedSession:
    """A stopped session."""

    tenant: str
    session: str
    position: int
    """Stream sequence of the event that stopped the session."""
    reason: str
    held_back: int
    """Number of later events of the session that wait."""
    sequence: int | None = None
    """Sequence of the event within the session, if its bytes say so."""
    type: str | None = None
    """Wire type of the event, if its bytes say so."""
    time: str | None = None
    """When the event was recorded, if its bytes say so."""


def find_stopped_among(
    connection: Connection, build: int, owners: Collection[SessionOwner]
) -> set[SessionOwner]:
    """Return which of these sessions are stopped."""
    found = select(_QUARANTINE_COLUMNS.tenant, _QUARANTINE_COLUMNS.session).where(
        _QUARANTINE_COLUMNS.build == build,
        _QUARANTINE_COLUMNS.reason.is_not(None),
        tuple_(_QUARANTINE_COLUMNS.tenant, _QUARANTINE_COLUMNS.session).in_(owners),
    )
    return {(row.tenant, row.session) for row in connection.execute(found)}


async def list_stopped_sessions(
    connection: AsyncConnection, build: int, tenant: str | None = None
) -> Sequence[StoppedSession]:
    """Return all stopped sessions, or those of one tenant, in the order in which they stopped."""
    waiting = QUARANTINE.alias("waiting")
    held_back = (
        select(func.count() - 1)
        .where(
            waiting.c.build == _QUARANTINE_COLUMNS.build,
            waiting.c.tenant == _QUARANTINE_COLUMNS.tenant,
            waiting.c.session == _QUARANTINE_COLUMNS.session,
        )
        .scalar_subquery()
        .label("held_back")
    )
    found = (
        select(QUARANTINE, held_back)
        .where(_QUARANTINE_COLUMNS.build == build, _QUARANTINE_COLUMNS.reason.is_not(None))
        .order_by(_QUARANTINE_COLUMNS.position)
    )
    if tenant is not None:
        found = found.where(_QUARANTINE_COLUMNS.tenant == tenant)
    stopped = list[StoppedSession]()
    for row in await connection.execute(found):
        event = _describe_event(row.position, row.reason, row.stored)
        stopped.append(
            StoppedSession(
                tenant=row.tenant,
                session=row.session,
                position=row.position,
                reason=row.reason,
                held_back=row.held_back,
                sequence=event.sequence,
                type=event.type,
                time=event.time,
            )
        )
    return stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStrays:
    """The stray messages of a session."""

    session: str
    count: int
    position: int
    """Stream sequence of the first one."""
    reason: str
    """Why the first one is no event."""


async def list_session_strays(
    connection: AsyncConnection, build: int, tenant: str
) -> Sequence[SessionStrays]:
    """Return the sessions of a tenant with stray messages, in the order of the first of each."""
    rows = STRAY_MESSAGES.c
    counted = (
        select(
            rows.session, func.count().label("amount"), func.min(rows.position).label("position")
        )
        .where(rows.build == build, rows.tenant == tenant)
        .group_by(rows.session)
        .subquery()
    )
    found = (
        select(rows.session, counted.c.amount, rows.position, rows.reason)
        .join(
            counted,
            and_(rows.session == counted.c.session, rows.position == counted.c.position),
        )
        .where(rows.build == build, rows.tenant == tenant)
        .order_by(rows.position)
    )
    return [
        SessionStrays(
            session=row.session,
            count=row.amount,
            position=row.position,
            reason=row.reason,
        )
        for row in await connection.execute(found)
    ]


async def list_quarantined_events(
    connection: AsyncConnection, build: int, owner: SessionOwner
) -> list[QuarantinedEvent]:
    """Return a session's events in quarantine, in stored order; the first one stopped it."""
    found = await connection.execute(
        select(QUARANTINE).where(_match_owner(build, owner)).order_by(_QUARANTINE_COLUMNS.position)
    )
    return [_describe_event(row.position, row.reason, row.stored) for row in found]


def _describe_event(position: int, reason: str | None, stored: bytes) -> QuarantinedEvent:
    """Describe an event by the envelope fields that can be read; none may be readable."""
    try:
        envelope: JsonValue = json.loads(stored)
    except (ValueError, RecursionError):
        envelope = None
    fields = envelope if isinstance(envelope, dict) else {}
    sequence, wire_type, time = (fields.get(name) for name in ("sequence", "type", "time"))
    return QuarantinedEvent(
        position=position,
        reason=reason,
        sequence=sequence if isinstance(sequence, int) else None,
        type=wire_type if isinstance(wire_type, str) else None,
        time=time if isinstance(time, str) else None,
    )


def _match_owner(build: int, owner: SessionOwner) -> ColumnElement[bool]:
    tenant, session = owner
    return and_(
        _QUARANTINE_COLUMNS.build == build,
        _QUARANTINE_COLUMNS.tenant == tenant,
        _QUARANTINE_COLUMNS.session == session,
    )


async def release_events(
    connection: AsyncConnection, build: int, owner: SessionOwner
) -> list[RawEvent]:
    """Remove a session's events from quarantine, and return them in stored order."""
    condition = _match_owner(build, owner)
    found = await connection.execute(
        select(QUARANTINE).where(condition).order_by(_QUARANTINE_COLUMNS.position)
    )
    raws = [RawEvent(row.subject, row.position, row.stored) for row in found]
    await connection.execute(delete(QUARANTINE).where(condition))
    return raws
