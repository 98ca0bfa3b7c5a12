"""Queries of sessions: filtered lists, the turns and calls of one session, counts and totals.

Lists are sorted newest first. A page continues after the stream position of its last session, which
never changes, so no session is repeated or missed while others are opened. The caller provides the
connection, so that several answers can come from one snapshot. Queries do not wait for the rows to
catch up; use `read_your_writes` for that.
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
    """Which sessions to list; a condition that is None is not applied."""

    q: str | None = None
    """Substring of the id or the title, ignoring case."""
    blueprint: str | None = None
    attributes: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Attributes given at opening with exactly this value, or with one of this JSON form."""
    since: datetime | None = None
    """It has an event at or after this time."""
    redacted: bool | None = None
    """Whether one of its replies was redacted."""
    origin: str | None = None
    """The session it was created from."""
    digest: str | None = None
    """A text it is pinned to: blueprint, cartridge, memory policy or prompt file."""
    open: bool | None = None
    """Whether it is not closed."""


async def sessions(
    connection: AsyncConnection,
    tenant: str,
    wanted: Wanted,
    *,
    limit: int = PAGE,
    before: int | None = None,
) -> Page:
    """Return a page of sessions; `before` is taken from the previous page."""
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
    """Return one session, or None."""
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
