"""Which calls of a tenant had a source in their prompt: the search in the index of uses.

The search starts at the sessions whose prompts have the source itself, and goes on to those that
got it from them: children, parents and forks. Each session is loaded and traced alone, and traced
again if more of its texts turn out to have the source. The tracing runs in a thread, since a
session may have thousands of calls.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Row, Select, Table, or_, select

from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.read.row_filters import match_tenant
from turnlog.projections.store.read.row_types import ListedUse
from turnlog.projections.store.schema.read_model_tables import (
    CALLS,
    CHILD_TURNS,
    EVENT_TEXTS,
    PROMPT_SOURCES,
    SESSIONS,
    replace_nul,
)
from turnlog.projections.uses.event_texts import EventText
from turnlog.projections.uses.prompt_sources import PromptSource
from turnlog.projections.uses.use_records import (
    IndexedCall,
    IndexedSession,
    RequestedChild,
    StoredSource,
    TextNode,
    UseWay,
)
from turnlog.projections.uses.use_tracing import is_shorter_way, trace_session

SESSION_BATCH: Final = 20
"""Sessions loaded together."""

NAME_BATCH: Final = 500
"""Sources looked up in one statement."""

USE_PAGE_SIZE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class UseQuery:
    """What is sought: stored sources, and texts of sessions."""

    sources: frozenset[StoredSource] = frozenset()
    texts: Mapping[str, TextNode] = field(default_factory=dict[str, TextNode])
    """A text by its session."""
    replies: bool = False
    """Whether a reply is taken to repeat what its prompt had."""
    session: str | None = None
    """Only calls of this session; None for all."""


async def list_uses(
    connection: AsyncConnection,
    tenant: str,
    query: UseQuery,
    *,
    limit: int = USE_PAGE_SIZE,
    after: tuple[int, int] | None = None,
) -> tuple[tuple[ListedUse, ...], bool]:
    """Return calls that had a source, newest session first, and whether there are more.

    `after` is the `place` of the last call of the previous page.
    """
    ways = await find_use_ways(connection, tenant, query)
    if query.session is not None:
        ways = {key: way for key, way in ways.items() if key[0] == query.session}
    uses = [use async for use in _iterate_uses(connection, tenant, ways)]
    ordered = sorted(uses, key=lambda use: (-use.place[0], use.place[1]))
    rest = [use for use in ordered if after is None or _is_after(use.place, after)]
    return tuple(rest[:limit]), len(rest) > limit


def _is_after(place: tuple[int, int], after: tuple[int, int]) -> bool:
    return (-place[0], place[1]) > (-after[0], after[1])


async def find_use_ways(
    connection: AsyncConnection, tenant: str, query: UseQuery
) -> dict[tuple[str, str], UseWay]:
    """Return the shortest way to each call that had a source, by session and call."""
    ways: dict[tuple[str, str], UseWay] = {}
    texts: defaultdict[str, dict[TextNode, UseWay]] = defaultdict(dict)
    for session, node in query.texts.items():
        texts[session][node] = ()
    due = dict.fromkeys(texts) | dict.fromkeys(
        [each async for each in _find_sessions(connection, tenant, query.sources)]
    )
    while due:
        batch = list(due)[:SESSION_BATCH]
        for session in batch:
            del due[session]
        for record in await load_indexed_sessions(connection, tenant, batch):
            traced = await asyncio.to_thread(
                trace_session,
                record,
                query.sources,
                texts[record.session],
                replies=query.replies,
            )
            ways |= {(record.session, call): way for call, way in traced.calls.items()}
            for (session, node), way in traced.passed_on.items():
                if is_shorter_way(way, texts[session].get(node)):
                    texts[session][node] = way
                    due[session] = None
    return ways


async def _find_sessions(
    connection: AsyncConnection, tenant: str, sources: Collection[StoredSource]
) -> AsyncIterator[str]:
    """Yield the sessions that have one of these sources themselves."""
    digests = [each.name for each in sources if each.kind == "digest"]
    labels = [each.name for each in sources if each.kind == "label"]
    lookups = [f"{each.kind}:{each.name}" for each in sources if each.kind != "digest"]
    sought = (
        (PROMPT_SOURCES, PROMPT_SOURCES.c.lookup, lookups),
        (PROMPT_SOURCES, PROMPT_SOURCES.c.digest, digests),
        (EVENT_TEXTS, EVENT_TEXTS.c.label, [*labels, *digests]),
    )
    for table, column, names in sought:
        for batch in _split_batches([*map(replace_nul, names)], NAME_BATCH):
            found = select(table.c.session).distinct()
            for session in await connection.scalars(
                found.where(match_tenant(table, tenant), column.in_(batch))
            ):
                yield session


def _split_batches(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]


async def load_indexed_sessions(
    connection: AsyncConnection, tenant: str, sessions: Sequence[str]
) -> list[IndexedSession]:
    """Return what the index has of these sessions; one that has no row is left out."""
    calls = await _load_rows(
        connection=connection, table=CALLS, query=select(CALLS), tenant=tenant, sessions=sessions
    )
    sources = await _load_rows(
        connection=connection,
        table=PROMPT_SOURCES,
        query=select(PROMPT_SOURCES),
        tenant=tenant,
        sessions=sessions,
    )
    texts = await _load_rows(
        connection=connection,
        table=EVENT_TEXTS,
        query=select(EVENT_TEXTS),
        tenant=tenant,
        sessions=sessions,
    )
    children = await _load_rows(
        connection=connection,
        table=CHILD_TURNS,
        query=select(CHILD_TURNS),
        tenant=tenant,
        sessions=sessions,
    )
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


async def _load_rows(
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


async def _iterate_uses(
    connection: AsyncConnection, tenant: str, ways: Mapping[tuple[str, str], UseWay]
) -> AsyncIterator[ListedUse]:
    """Yield the calls with what a list shows of them."""
    sessions = list(dict.fromkeys(session for session, _ in ways))
    for batch in _split_batches(sessions, SESSION_BATCH):
        calls = await _load_rows(
            connection=connection, table=CALLS, query=select(CALLS), tenant=tenant, sessions=batch
        )
        replied = await _find_replies(connection, tenant, batch)
        positions = select(SESSIONS.c.session, SESSIONS.c.opened_position).where(
            match_tenant(SESSIONS, tenant), SESSIONS.c.session.in_(batch)
        )
        for session, position in (await connection.execute(positions)).all():
            for row in calls[session]:
                way = ways.get((session, row.call))
                if way is not None:
                    is_reply = (session, row.call) in replied
                    yield _build_use(row, position, way, is_reply=is_reply)


async def _find_replies(
    connection: AsyncConnection, tenant: str, sessions: Sequence[str]
) -> set[tuple[str, str]]:
    """Return the calls, by session, whose answer is the reply of their turn."""
    columns = EVENT_TEXTS.c
    query = select(columns.session, columns.call).where(
        match_tenant(EVENT_TEXTS, tenant),
        columns.session.in_(sessions),
        columns.kind == "turn",
        columns.call.is_not(None),
    )
    return {(session, call) for session, call in (await connection.execute(query)).all()}


def _build_use(row: Row[Any], position: int, way: UseWay, *, is_reply: bool) -> ListedUse:
    return ListedUse(
        session=row.session,
        turn=row.turn,
        call=row.call,
        kind=row.kind,
        model=row.model,
        at=row.at,
        sequence=row.sequence,
        reply=is_reply,
        through=way,
        place=(position, row.sequence),
    )
