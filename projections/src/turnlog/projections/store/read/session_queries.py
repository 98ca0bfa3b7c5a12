"""Queries of sessions: filtered lists, the calls of one session, last sequences and totals.

Lists are sorted newest first, or in another order of `session_orders`. The caller provides the
connection, so that several answers can come from one snapshot. Queries do not wait for the rows to
catch up; use `read_your_writes` for that.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Final

from pydantic import JsonValue
from sqlalchemy import (
    ColumnElement,
    RowMapping,
    Table,
    exists,
    func,
    or_,
    select,
)

from turnlog.events.codec import format_rfc3339
from turnlog.projections.audit.verify.verification_report import SessionTotals
from turnlog.projections.session_views.call_times import compute_call_times, compute_waiting_times
from turnlog.projections.session_views.cost_totals import sum_call_cost
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.read.child_usage import add_usage, sum_child_usage
from turnlog.projections.store.read.cost_columns import (
    IS_GUESSED,
    USAGE_COLUMNS,
    build_usage,
    is_unpriced,
)
from turnlog.projections.store.read.pinned_versions import match_pinned_text
from turnlog.projections.store.read.row_filters import (
    label_columns,
    match_session,
    match_tenant,
    read_figures,
    select_columns,
    sum_column,
)
from turnlog.projections.store.read.row_types import (
    ListedAttempt,
    ListedCall,
    ListedOrigin,
    ListedSession,
    SessionPageMark,
    SessionRowPage,
    UsageTotal,
)
from turnlog.projections.store.read.session_orders import (
    RANKS,
    SessionOrder,
    build_page_condition,
)
from turnlog.projections.store.schema.read_model_tables import (
    ATTEMPTS,
    ATTRIBUTES,
    CALLS,
    QUARANTINE,
    SESSION_LABELS,
    SESSION_SHARES,
    SESSIONS,
    STRAY_MESSAGES,
    TURNS,
    compute_attribute_digest,
    replace_nul,
)

SESSION_PAGE_SIZE: Final = 50

_SESSION_COLUMNS: Final = SESSIONS.c

_LISTED_COLUMNS: Final = (
    *(column for column in select_columns(SESSIONS, ListedSession) if column.name != "title"),
    func.coalesce(_SESSION_COLUMNS.given_title, _SESSION_COLUMNS.title).label("title"),
    _SESSION_COLUMNS.last_sequence.label("sequence"),
    _SESSION_COLUMNS.blueprint_version.label("version"),
    _SESSION_COLUMNS.blueprint_digest.label("digest"),
    _SESSION_COLUMNS.origin_kind,
    _SESSION_COLUMNS.origin_session,
    _SESSION_COLUMNS.origin_sequence,
    select(func.min(QUARANTINE.c.reason))
    .where(
        QUARANTINE.c.build == _SESSION_COLUMNS.build,
        QUARANTINE.c.tenant == _SESSION_COLUMNS.tenant,
        QUARANTINE.c.session == _SESSION_COLUMNS.session,
    )
    .scalar_subquery()
    .label("stopped"),
    select(func.count())
    .select_from(STRAY_MESSAGES)
    .where(
        STRAY_MESSAGES.c.build == _SESSION_COLUMNS.build,
        STRAY_MESSAGES.c.tenant == _SESSION_COLUMNS.tenant,
        STRAY_MESSAGES.c.session == _SESSION_COLUMNS.session,
    )
    .scalar_subquery()
    .label("stray_messages"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionQuery:
    """Which sessions to list; a condition that is None is not applied."""

    q: str | None = None
    """Substring of the id, the title or the first turn's text, ignoring case."""
    blueprint: str | None = None
    attributes: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Attributes given at opening with exactly this value, or with one of this JSON form."""
    since: datetime | None = None
    """It has an event at or after this time."""
    until: datetime | None = None
    """It was opened before this time."""
    user: str | None = None
    """Who asked for one of its turns."""
    owner: str | None = None
    """The user whose session it is."""
    reached_by: str | None = None
    """A user whose session it is, or with whom it is shared."""
    redacted: bool | None = None
    """Whether one of its replies was redacted."""
    origin: str | None = None
    """The session it was created from."""
    digest: str | None = None
    """A text it is pinned to: blueprint, cartridge, memory policy or prompt file."""
    open: bool | None = None
    """Whether it is not closed."""
    profile: str | None = None
    """Its current profile."""
    phase: str | None = None
    """Its current phase."""
    failed: bool | None = None
    """Whether one of its turns failed."""
    failure: str | None = None
    """The code that one of its turns failed with."""
    label: str | None = None
    """A label that it has."""
    near: int | None = None
    """Its last prompt took at least so many per cent of its budget."""


async def list_sessions(
    connection: AsyncConnection,
    tenant: str,
    query: SessionQuery,
    *,
    order: SessionOrder = "opened",
    limit: int = SESSION_PAGE_SIZE,
    before: SessionPageMark | None = None,
) -> SessionRowPage:
    """Return a page of sessions; `before` is taken from the previous page of the same order."""
    rank, position = RANKS[order], _SESSION_COLUMNS.opened_position
    found = (
        select(*_LISTED_COLUMNS, position, rank.label("rank"))
        .where(match_tenant(SESSIONS, tenant), *_build_conditions(query))
        .order_by(rank.desc(), position.desc())
        .limit(limit + 1)
    )
    if before is not None:
        found = found.where(build_page_condition(before, order))
    rows = (await connection.execute(found)).mappings().all()
    last = None
    if len(rows) > limit:
        end = rows[limit - 1]
        last = SessionPageMark(end["opened_position"], end["rank"])
    usage = await _sum_usage(connection, tenant, [row["session"] for row in rows[:limit]])
    return SessionRowPage(tuple(_build_session_row(row, usage) for row in rows[:limit]), last)


async def list_session_ids(
    connection: AsyncConnection, tenant: str, query: SessionQuery
) -> tuple[str, ...]:
    """Return the ids of all sessions sought, newest first."""
    found = (
        select(_SESSION_COLUMNS.session)
        .where(match_tenant(SESSIONS, tenant), *_build_conditions(query))
        .order_by(_SESSION_COLUMNS.opened_position.desc())
    )
    return tuple((await connection.execute(found)).scalars())


async def find_session(
    connection: AsyncConnection, tenant: str, session: str
) -> ListedSession | None:
    """Return one session, or None."""
    found = select(*_LISTED_COLUMNS).where(match_session(SESSIONS, tenant, session))
    row = (await connection.execute(found)).mappings().one_or_none()
    if row is None:
        return None
    return _build_session_row(row, await _sum_usage(connection, tenant, [session]))


@dataclass(frozen=True, slots=True)
class _UsageSums:
    """What sessions took, and the children that their turns asked."""

    own: Mapping[str, UsageTotal]
    children: Mapping[str, UsageTotal]


async def _sum_usage(
    connection: AsyncConnection, tenant: str, sessions: Sequence[str]
) -> _UsageSums:
    found = await _query_by_session(
        connection, ATTEMPTS, tenant, sessions, dict(USAGE_COLUMNS), ATTEMPTS.c.copied.is_(False)
    )
    asked = await sum_child_usage(connection, tenant, sessions)
    return _UsageSums(
        {session: build_usage(usage) for session, usage in found.items()},
        {session: add_usage(turns.values()) for session, turns in asked.items()},
    )


def _build_conditions(query: SessionQuery) -> list[ColumnElement[bool]]:
    conditions = [match_attribute(name, value) for name, value in query.attributes.items()]
    if query.q is not None:
        conditions.append(_contains_text(query.q))
    if query.blueprint is not None:
        conditions.append(_SESSION_COLUMNS.blueprint == replace_nul(query.blueprint))
    if query.since is not None:
        conditions.append(_SESSION_COLUMNS.last_at >= format_rfc3339(query.since))
    if query.until is not None:
        conditions.append(_SESSION_COLUMNS.opened_at < format_rfc3339(query.until))
    if query.owner is not None:
        conditions.append(_SESSION_COLUMNS.owner == query.owner)
    if query.reached_by is not None:
        own = _SESSION_COLUMNS.owner == query.reached_by
        conditions.append(or_(own, _is_shared_with(query.reached_by)))
    if query.user is not None:
        conditions.append(_has_turn(TURNS.c.asked_by == query.user))
    if query.origin is not None:
        conditions.append(_SESSION_COLUMNS.origin_session == replace_nul(query.origin))
    if query.redacted is not None:
        conditions.append(_SESSION_COLUMNS.redacted.is_(query.redacted))
    if query.digest is not None:
        conditions.append(match_pinned_text(replace_nul(query.digest)))
    if query.open is not None:
        conditions.append(_SESSION_COLUMNS.closed_at.is_(None) == query.open)
    if query.profile is not None:
        conditions.append(_SESSION_COLUMNS.profile == replace_nul(query.profile))
    if query.phase is not None:
        conditions.append(_SESSION_COLUMNS.phase == replace_nul(query.phase))
    if query.failed is not None:
        has_failed = _has_turn(TURNS.c.status == "failed")
        conditions.append(has_failed if query.failed else ~has_failed)
    if query.failure is not None:
        conditions.append(_has_turn(TURNS.c.failure == replace_nul(query.failure)))
    if query.label is not None:
        conditions.append(_has_label(query.label))
    if query.near is not None:
        conditions.append(_SESSION_COLUMNS.budget_share >= query.near * 10)
    return conditions


def _contains_text(text: str) -> ColumnElement[bool]:
    sought = replace_nul(text.casefold())
    columns = (_SESSION_COLUMNS.sought, _SESSION_COLUMNS.sought_title)
    return or_(*(column.contains(sought, autoescape=True) for column in columns))


def _has_label(label: str) -> ColumnElement[bool]:
    rows = SESSION_LABELS.c
    return exists().where(
        rows.build == _SESSION_COLUMNS.build,
        rows.tenant == _SESSION_COLUMNS.tenant,
        rows.session == _SESSION_COLUMNS.session,
        rows.label == replace_nul(label),
        rows.set_in == _SESSION_COLUMNS.labels_in,
    )


def _is_shared_with(user: str) -> ColumnElement[bool]:
    rows = SESSION_SHARES.c
    return exists().where(
        rows.build == _SESSION_COLUMNS.build,
        rows.tenant == _SESSION_COLUMNS.tenant,
        rows.session == _SESSION_COLUMNS.session,
        rows.user_name == user,
        rows.access != "none",
    )


def _has_turn(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return exists().where(
        TURNS.c.build == _SESSION_COLUMNS.build,
        TURNS.c.tenant == _SESSION_COLUMNS.tenant,
        TURNS.c.session == _SESSION_COLUMNS.session,
        condition,
    )


def match_attribute(name: str, value: JsonValue) -> ColumnElement[bool]:
    """Match the sessions whose attribute has exactly this value, or one of this JSON form."""
    rows = ATTRIBUTES.c
    return exists().where(
        rows.build == _SESSION_COLUMNS.build,
        rows.tenant == _SESSION_COLUMNS.tenant,
        rows.session == _SESSION_COLUMNS.session,
        rows.name == replace_nul(name),
        rows.digest == compute_attribute_digest(value),
        rows.given_in == _SESSION_COLUMNS.blueprint_in,
    )


def _build_session_row(row: RowMapping, usage: _UsageSums) -> ListedSession:
    columns = {field.name: row[field.name] for field in fields(ListedSession) if field.name in row}
    columns["attributes"] = json.loads(row["attributes"])
    columns["labels"] = tuple(json.loads(row["labels"] or "[]"))
    if row["budget_share"] is not None:
        columns["budget_share"] = row["budget_share"] / 1_000
    own = usage.own.get(row["session"], UsageTotal())
    theirs = usage.children.get(row["session"])
    return ListedSession(
        **columns,
        usage=own,
        origin=_build_origin_row(row),
        children_usage=theirs,
        total_usage=add_usage((own, theirs)) if theirs else None,
    )


def _build_origin_row(row: RowMapping) -> ListedOrigin | None:
    if row["origin_kind"] is None:
        return None
    return ListedOrigin(row["origin_kind"], row["origin_session"], row["origin_sequence"])


async def list_calls(
    connection: AsyncConnection, tenant: str, session: str
) -> tuple[ListedCall, ...]:
    """Return a session's calls in order, each with its attempts."""
    attempts = await _list_attempts_by_call(connection, tenant, session)
    found = (
        select(*select_columns(CALLS, ListedCall))
        .where(match_session(CALLS, tenant, session))
        .order_by(CALLS.c.sequence)
    )
    return tuple(
        _build_call_row(row, tuple(attempts[row["call"]]))
        for row in (await connection.execute(found)).mappings()
    )


async def _list_attempts_by_call(
    connection: AsyncConnection, tenant: str, session: str
) -> Mapping[str, Sequence[ListedAttempt]]:
    """Return a session's attempts by call, in order."""
    found = (
        select(ATTEMPTS.c.call, *select_columns(ATTEMPTS, ListedAttempt))
        .where(match_session(ATTEMPTS, tenant, session))
        .order_by(ATTEMPTS.c.turn, ATTEMPTS.c.attempt)
    )
    attempts: defaultdict[str, list[ListedAttempt]] = defaultdict(list)
    for row in (await connection.execute(found)).mappings():
        columns = {name: value for name, value in row.items() if name != "call"}
        attempts[row["call"]].append(ListedAttempt(**columns))
    return attempts


def _build_call_row(row: RowMapping, attempts: tuple[ListedAttempt, ...]) -> ListedCall:
    """Build a call with the totals of its attempts, as reliable as the worst of them."""
    sources = {attempt.known or "unknown" for attempt in attempts} or {"unknown"}
    cost = sum_call_cost(attempt for attempt in attempts if attempt.ended_at is not None)
    waits = compute_waiting_times(attempts)
    return ListedCall(
        **row,
        known=next(name for name in ("unknown", "estimated", "reported") if name in sources),
        input_tokens=_sum_known(attempt.input_tokens for attempt in attempts),
        output_tokens=_sum_known(attempt.output_tokens for attempt in attempts),
        micro_dollars=cost.micro_dollars,
        cost=cost,
        times=compute_call_times(attempts),
        attempts=tuple(
            replace(attempt, waited_ms=wait) for attempt, wait in zip(attempts, waits, strict=True)
        ),
    )


def _sum_known(figures: Iterable[int | None]) -> int | None:
    """Return the sum of the known figures; None if none is known."""
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None


SEQUENCE_PAGE_SIZE: Final = 5_000
"""Sessions in one page of `list_last_sequences`."""


async def list_last_sequences(
    connection: AsyncConnection, tenant: str, after: str
) -> dict[str, int]:
    """Return the last folded sequence of a page of sessions, in the order of their ids."""
    found = (
        select(SESSIONS.c.session, SESSIONS.c.last_sequence)
        .where(match_tenant(SESSIONS, tenant), SESSIONS.c.session > after)
        .order_by(SESSIONS.c.session)
        .limit(SEQUENCE_PAGE_SIZE)
    )
    return {row.session: row.last_sequence for row in await connection.execute(found)}


TotalColumns = dict[str, ColumnElement[int]]


async def compute_totals(
    connection: AsyncConnection, tenant: str, sessions: Sequence[str]
) -> dict[str, SessionTotals]:
    """Return totals of these sessions by their rows, to compare with the events.

    Sessions without a row are left out.
    """
    figures: dict[str, dict[str, int]] = {}
    columns_by_table: dict[Table, TotalColumns] = {
        SESSIONS: {"sequence": func.max(SESSIONS.c.last_sequence)},
        TURNS: {"turns": func.count()},
        CALLS: {"calls": func.count(), "tokens": sum_column(CALLS.c.tokens)},
        ATTEMPTS: {
            "attempts": func.count(),
            "input_tokens": sum_column(ATTEMPTS.c.input_tokens),
            "output_tokens": sum_column(ATTEMPTS.c.output_tokens),
            "micro_dollars": sum_column(ATTEMPTS.c.micro_dollars),
            "guessed_attempts": func.count().filter(IS_GUESSED),
            "unpriced_attempts": func.count().filter(is_unpriced(ATTEMPTS)),
        },
    }
    for table, columns in columns_by_table.items():
        for session, found in (
            await _query_by_session(
                connection=connection, table=table, tenant=tenant, sessions=sessions, totals=columns
            )
        ).items():
            figures.setdefault(session, {}).update(found)
    return {
        session: SessionTotals(**found) for session, found in figures.items() if "sequence" in found
    }


async def _query_by_session(
    connection: AsyncConnection,
    table: Table,
    tenant: str,
    sessions: Sequence[str],
    totals: TotalColumns,
    *conditions: ColumnElement[bool],
) -> dict[str, dict[str, int]]:
    found = (
        select(table.c.session, *label_columns(totals))
        .where(match_tenant(table, tenant), table.c.session.in_(sessions), *conditions)
        .group_by(table.c.session)
    )
    rows = (await connection.execute(found)).mappings()
    return {row["session"]: read_figures(row, totals) for row in rows}
