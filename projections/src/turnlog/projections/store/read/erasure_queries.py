"""What the read models know for erasures: what they reach, open ones, and what may be due."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import ColumnElement, exists, func, or_, select

from turnlog.events.model.installation.retention_events import RetentionScope
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.read.row_filters import match_tenant
from turnlog.projections.store.schema.read_model_tables import (
    SESSION_LABELS,
    SESSIONS,
    TURNS,
    replace_nul,
)
from turnlog.projections.store.write.projection_positions import read_active_position


class OpenErasure(NamedTuple):
    """An erasure that was begun and has not ended."""

    tenant: str
    session: str
    begun: int
    """Sequence of the event that began it."""
    opened_position: int
    """Its place in the order in which sessions were opened."""


async def list_open_erasures(
    connection: AsyncConnection, after: int, most: int
) -> Sequence[OpenErasure]:
    """Return erasures of all tenants that have not ended, the oldest sessions first.

    `after` is a place in that order.
    """
    active = await read_active_position(connection)
    if active is None:
        return ()
    rows = SESSIONS.c
    query = (
        select(rows.tenant, rows.session, rows.erasing, rows.opened_position)
        .where(rows.build == active.build, rows.erasing.is_not(None))
        .where(rows.opened_position > after)
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
    connection: AsyncConnection, tenant: str, names: Sequence[str]
) -> Sequence[str]:
    """Return all sessions that a user of these names owns or asked something in, by age."""
    rows = SESSIONS.c
    query = select(rows.session).where(match_tenant(SESSIONS, tenant), _is_of_user(tenant, names))
    return (await connection.scalars(query.order_by(rows.opened_position))).all()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedRow:
    """What the read models know of a session that policies and holds ask for."""

    session: str
    opened_position: int
    """Its place in the order in which sessions are listed."""
    blueprint: str
    labels: tuple[str, ...]
    owner: str | None
    used_at: str
    """When it was opened, or a turn of it last began or ended."""
    is_sealed: bool
    is_child: bool


async def list_retained_rows(
    connection: AsyncConnection, tenant: str, after: int, most: int
) -> Sequence[RetainedRow]:
    """Return sessions that are not erased, the oldest first, behind a place in that order."""
    rows = SESSIONS.c
    query = (
        select(
            *(rows.session, rows.opened_position, rows.opened_at, rows.blueprint, rows.labels),
            *(rows.owner, rows.used_at, rows.sealed_under, rows.origin_kind, rows.erased_in),
        )
        .where(match_tenant(SESSIONS, tenant), rows.opened_position > after)
        .where(rows.erased_in.is_(None))
        .order_by(rows.opened_position)
        .limit(most)
    )
    return [
        RetainedRow(
            session=row.session,
            opened_position=row.opened_position,
            blueprint=row.blueprint,
            labels=tuple(json.loads(row.labels or "[]")),
            owner=row.owner,
            used_at=row.used_at or row.opened_at,
            is_sealed=row.sealed_under is not None,
            is_child=row.origin_kind == "parent",
        )
        for row in await connection.execute(query)
    ]


async def has_blueprint_sessions(connection: AsyncConnection, tenant: str, blueprint: str) -> bool:
    """Return whether a session was ever opened with a blueprint of this name."""
    query = select(SESSIONS.c.session).where(
        match_tenant(SESSIONS, tenant), SESSIONS.c.blueprint == blueprint
    )
    return await connection.scalar(query.limit(1)) is not None


async def count_covered_sessions(
    connection: AsyncConnection, tenant: str, where: RetentionScope
) -> int:
    """Return how many sessions that are not erased a policy or a hold is for."""
    query = select(func.count()).where(*_match_scope(tenant, where), SESSIONS.c.erased_in.is_(None))
    return int(await connection.scalar(query) or 0)


async def list_erasing_sessions(
    connection: AsyncConnection, tenant: str, where: RetentionScope
) -> Sequence[str]:
    """Return those of which an erasure has begun and not ended, the oldest first."""
    query = select(SESSIONS.c.session).where(
        *_match_scope(tenant, where), SESSIONS.c.erasing.is_not(None)
    )
    return (await connection.scalars(query.order_by(SESSIONS.c.opened_position))).all()


def _match_scope(tenant: str, where: RetentionScope) -> Iterator[ColumnElement[bool]]:
    rows = SESSIONS.c
    yield match_tenant(SESSIONS, tenant)
    if where.blueprint is not None:
        yield rows.blueprint == replace_nul(where.blueprint)
    if where.session is not None:
        yield rows.session == replace_nul(where.session)
    if where.user is not None:
        yield _is_of_user(tenant, (where.user,))
    for label in where.labels:
        own = SESSION_LABELS.c
        yield exists().where(
            own.build == rows.build,
            own.tenant == rows.tenant,
            own.session == rows.session,
            own.label == replace_nul(label),
            own.set_in == rows.labels_in,
        )


def _is_of_user(tenant: str, names: Sequence[str]) -> ColumnElement[bool]:
    """Match the sessions that a user of these names owns or asked something in."""
    is_asked = TURNS.c.asked_by.in_(names)
    asked = select(TURNS.c.session).where(match_tenant(TURNS, tenant), is_asked)
    return or_(SESSIONS.c.owner.in_(names), SESSIONS.c.session.in_(asked))
