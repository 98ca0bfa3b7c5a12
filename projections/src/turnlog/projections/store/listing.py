"""Listing sessions: by what they are and what is said in their first turn, newest first.

A page is continued from the place of its last session in the log, which never changes, so no
session is met twice and none is missed while others are opened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pydantic import JsonValue
from sqlalchemy import ColumnElement, RowMapping, exists, select
from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.events.codec import rfc3339
from turnlog.projections.store.pins import pinned_to
from turnlog.projections.store.rows import Page, SessionRow
from turnlog.projections.store.selecting import columns_of, of_session, of_tenant
from turnlog.projections.store.tables import ATTRIBUTES, SESSIONS
from turnlog.projections.store.texts import attribute_digest, storable

PAGE: Final = 50
_ROWS: Final = SESSIONS.c


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which sessions; what is none does not matter."""

    q: str | None = None
    """Stands somewhere in the id or the title, in whatever case."""
    blueprint: str | None = None
    attributes: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Each given at opening with just this value, or with one that is spelt so in JSON."""
    since: datetime | None = None
    """Something happened in it at or after this moment."""
    redacted: bool | None = None
    """Whether a reply of it was redacted."""
    origin: str | None = None
    """The session it came from."""
    digest: str | None = None
    """It is pinned to this text, as its blueprint, its cartridge or whatever else."""
    open: bool | None = None
    """Whether it may still go on."""


async def sessions(
    connection: AsyncConnection,
    tenant: str,
    wanted: Wanted,
    *,
    limit: int = PAGE,
    before: int | None = None,
) -> Page:
    """Give a page of sessions; `before` is what the page ahead of it said."""
    found = (
        select(*columns_of(SESSIONS, SessionRow))
        .where(of_tenant(SESSIONS, tenant), *_conditions(wanted))
        .order_by(_ROWS.opened_position.desc())
        .limit(limit + 1)
    )
    if before is not None:
        found = found.where(_ROWS.opened_position < before)
    rows = [_session(row) for row in (await connection.execute(found)).mappings()]
    more = len(rows) > limit
    return Page(tuple(rows[:limit]), rows[limit - 1].opened_position if more else None)


async def session(connection: AsyncConnection, tenant: str, session: str) -> SessionRow | None:
    """Give one session."""
    columns = columns_of(SESSIONS, SessionRow)
    found = select(*columns).where(of_session(SESSIONS, tenant, session))
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else _session(row)


def _conditions(wanted: Wanted) -> list[ColumnElement[bool]]:
    conditions = [_has_attribute(name, value) for name, value in wanted.attributes.items()]
    if wanted.q is not None:
        conditions.append(_ROWS.sought.contains(storable(wanted.q.casefold()), autoescape=True))
    if wanted.blueprint is not None:
        conditions.append(_ROWS.blueprint == storable(wanted.blueprint))
    if wanted.since is not None:
        conditions.append(_ROWS.last_at >= rfc3339(wanted.since))
    if wanted.origin is not None:
        conditions.append(_ROWS.origin_session == storable(wanted.origin))
    if wanted.redacted is not None:
        conditions.append(_ROWS.redacted.is_(wanted.redacted))
    if wanted.digest is not None:
        conditions.append(pinned_to(storable(wanted.digest)))
    if wanted.open is not None:
        conditions.append(_ROWS.closed_at.is_(None) == wanted.open)
    return conditions


def _has_attribute(name: str, value: JsonValue) -> ColumnElement[bool]:
    rows = ATTRIBUTES.c
    return exists().where(
        rows.build == _ROWS.build,
        rows.tenant == _ROWS.tenant,
        rows.session == _ROWS.session,
        rows.name == storable(name),
        rows.digest == attribute_digest(value),
        rows.given_in == _ROWS.blueprint_in,
    )


def _session(row: RowMapping) -> SessionRow:
    return SessionRow(**{**row, "attributes": json.loads(row["attributes"])})
