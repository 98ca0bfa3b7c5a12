"""What the index of uses has of sessions, as it is loaded for tracing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Row, Select, Table, or_, select

from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.read.row_filters import match_tenant
from turnlog.projections.store.schema.read_model_tables import (
    CALLS,
    CHILD_TURNS,
    EVENT_TEXTS,
    PROMPT_SOURCES,
    SESSIONS,
)
from turnlog.projections.uses.event_texts import EventText
from turnlog.projections.uses.prompt_sources import PromptSource
from turnlog.projections.uses.use_records import IndexedCall, IndexedSession, RequestedChild


async def load_indexed_sessions(
    connection: AsyncConnection, tenant: str, sessions: Sequence[str]
) -> list[IndexedSession]:
    """Return what the index has of these sessions; one that has no row is left out."""
    calls, sources, texts, children = [
        await load_session_rows(
            connection=connection, table=table, query=query, tenant=tenant, sessions=sessions
        )
        for table, query in (
            (CALLS, select(CALLS)),
            (PROMPT_SOURCES, select(PROMPT_SOURCES)),
            (EVENT_TEXTS, select(EVENT_TEXTS)),
            (CHILD_TURNS, select(CHILD_TURNS)),
        )
    ]
    parents, copies = await _load_relations(connection, tenant, sessions)
    return [
        IndexedSession(
            session=session,
            parent=parents[session],
            copies=tuple(copies[session]),
            calls=tuple(_build_calls(calls[session], sources[session])),
            texts=tuple(map(_build_text, texts[session])),
            children=tuple(_build_children(children[session])),
        )
        for session in sessions
        if session in parents
    ]


SessionRows = Mapping[str, Sequence[Row[Any]]]


async def load_session_rows(
    connection: AsyncConnection,
    table: Table,
    query: Select[Any],
    tenant: str,
    sessions: Sequence[str],
) -> SessionRows:
    """Return the rows of a table that belong to sessions, in the order of their keys."""
    mine = query.where(match_tenant(table, tenant), table.c.session.in_(sessions))
    rows = (await connection.execute(mine.order_by(*table.primary_key.columns))).all()
    found = {session: list(group) for session, group in groupby(rows, lambda row: row.session)}
    return defaultdict(list, found)


async def _load_relations(
    connection: AsyncConnection, tenant: str, sessions: Sequence[str]
) -> tuple[dict[str, str | None], Mapping[str, Sequence[tuple[str, int]]]]:
    """Return the parent of each session, and the sessions with the same events."""
    columns = SESSIONS.c
    query = select(
        columns.session, columns.origin_kind, columns.origin_session, columns.origin_sequence
    ).where(
        match_tenant(SESSIONS, tenant),
        or_(columns.session.in_(sessions), columns.origin_session.in_(sessions)),
    )
    parents: dict[str, str | None] = {}
    copies: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for row in (await connection.execute(query)).all():
        parents[row.session] = row.origin_session if row.origin_kind == "parent" else None
        if row.origin_kind == "fork":
            copies[row.session].append((row.origin_session, row.origin_sequence))
            copies[row.origin_session].append((row.session, row.origin_sequence))
    return parents, copies


def _build_calls(calls: Iterable[Row[Any]], sources: Iterable[Row[Any]]) -> Iterator[IndexedCall]:
    by_call: defaultdict[str, list[PromptSource]] = defaultdict(list)
    for row in sources:
        by_call[row.call].append(
            PromptSource(
                kind=row.kind, name=row.name, first=row.first, last=row.last, digest=row.digest
            )
        )
    for row in calls:
        yield IndexedCall(
            call=row.call, turn=row.turn, sequence=row.sequence, sources=tuple(by_call[row.call])
        )


def _build_text(row: Row[Any]) -> EventText:
    return EventText(
        sequence=row.sequence,
        kind=row.kind,
        first=row.first,
        last=row.last,
        call=row.call,
        request=row.request,
        label=row.label,
        quoted=row.quoted,
    )


def _build_children(rows: Iterable[Row[Any]]) -> Iterator[RequestedChild]:
    for row in rows:
        yield RequestedChild(
            call=row.call, request=row.request, session=row.child_session, turn=row.child_turn
        )
