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

from turnlog.events.codec import format_rfc3339
from turnlog.projections.store.pins import match_pinned_text
from turnlog.projections.store.rows import SessionRowPage, SessionRow
from turnlog.projections.store.selecting import select_columns, match_session, match_tenant
from turnlog.projections.store.tables import ATTRIBUTES, SESSIONS
from turnlog.projections.store.texts import compute_attribute_digest, replace_nul

SESSION_PAGE_SIZE: Final = 50
_SESSION_COLUMNS: Final = SESSIONS.c


@dataclass(frozen=True, slots=True)
class SessionQuery:
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


async def list_sessions(
    connection: AsyncConnection,
    tenant: str,
    wanted: SessionQuery,
    *,
    limit: int = SESSION_PAGE_SIZE,
    before: int | None = None,
) -> SessionRowPage:
    """Return a page of sessions; `before` is taken from the previous page."""
    found = (
        select(*select_columns(SESSIONS, SessionRow))
        .where(match_tenant(SESSIONS, tenant), *_build_conditions(wanted))
        .order_by(_SESSION_COLUMNS.opened_position.desc())
        .limit(limit + 1)
    )
    if before is not None:
        found = found.where(_SESSION_COLUMNS.opened_position < before)
    rows = [_build_session_row(row) for row in (await connection.execute(found)).mappings()]
    more = len(rows) > limit
    return SessionRowPage(tuple(rows[:limit]), rows[limit - 1].opened_position if more else None)


async def find_session(connection: AsyncConnection, tenant: str, session: str) -> SessionRow | None:
    """Return one session, or None."""
    columns = select_columns(SESSIONS, SessionRow)
    found = select(*columns).where(match_session(SESSIONS, tenant, session))
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else _build_session_row(row)


def _build_conditions(wanted: SessionQuery) -> list[ColumnElement[bool]]:
    conditions = [_has_attribute(name, value) for name, value in wanted.attributes.items()]
    if wanted.q is not None:
        conditions.append(_SESSION_COLUMNS.sought.contains(replace_nul(wanted.q.casefold()), autoescape=True))
    if wanted.blueprint is not None:
        conditions.append(_SESSION_COLUMNS.blueprint == replace_nul(wanted.blueprint))
    if wanted.since is not None:
        conditions.append(_SESSION_COLUMNS.last_at >= format_rfc3339(wanted.since))
    if wanted.origin is not None:
        conditions.append(_SESSION_COLUMNS.origin_session == replace_nul(wanted.origin))
    if wanted.redacted is not None:
        conditions.append(_SESSION_COLUMNS.redacted.is_(wanted.redacted))
    if wanted.digest is not None:
        conditions.append(match_pinned_text(replace_nul(wanted.digest)))
    if wanted.open is not None:
        conditions.append(_SESSION_COLUMNS.closed_at.is_(None) == wanted.open)
    return conditions


def _has_attribute(name: str, value: JsonValue) -> ColumnElement[bool]:
    rows = ATTRIBUTES.c
    return exists().where(
        rows.build == _SESSION_COLUMNS.build,
        rows.tenant == _SESSION_COLUMNS.tenant,
        rows.session == _SESSION_COLUMNS.session,
        rows.name == replace_nul(name),
        rows.digest == compute_attribute_digest(value),
        rows.given_in == _SESSION_COLUMNS.blueprint_in,
    )


def _build_session_row(row: RowMapping) -> SessionRow:
    return SessionRow(**{**row, "attributes": json.loads(row["attributes"])})
