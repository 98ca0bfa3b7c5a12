"""Which calls of a tenant had a source in their prompt: the search in the index of uses.

The search starts at the sessions whose prompts have the source itself. Most of them have no
relatives: a page traces as many of these as it needs, newest first. The others may pass on what
they had to children, parents and forks, which may be older or newer. So all that the source reaches
among relatives is traced for every page, up to a limit, above which the search is refused. Each
session is loaded and traced alone, and traced again if more of its texts turn out to have the
source. The tracing runs in a thread, since a session may have thousands of calls.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Row, Select, exists, not_, or_, select
from sqlalchemy.sql.elements import ColumnElement

from turnlog.events.errors import Refused
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.read.indexed_sessions import (
    load_indexed_sessions,
    load_session_rows,
)
from turnlog.projections.store.read.row_filters import match_tenant
from turnlog.projections.store.read.row_types import ListedUse
from turnlog.projections.store.schema.read_model_tables import (
    CALLS,
    EVENT_TEXTS,
    PROMPT_SOURCES,
    SESSIONS,
    replace_nul,
)
from turnlog.projections.uses.use_records import (
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

MAX_RELATED_SESSIONS: Final = 5_000
"""Sessions with relatives that one search traces: about a millisecond each in SQLite, two in
Postgres.
"""


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
    max_related: int = MAX_RELATED_SESSIONS,
) -> tuple[tuple[ListedUse, ...], bool]:
    """Return calls that had a source, newest session first, and whether there are more.

    `after` is the `place` of the last call of the previous page. Raises `Refused` if the source
    reached more than `max_related` sessions that are related to others.
    """
    search = _UseSearch(connection, tenant, query, max_related)
    ways = await search.find_related_ways()
    uses = [use async for use in _iterate_uses(connection, tenant, ways)]
    found = [use for use in uses if _is_after(use.place, after)]
    found += await search.load_single_uses({session for session, _ in ways}, limit + 1, after)
    found.sort(key=lambda use: (-use.place[0], use.place[1]))
    return tuple(found[:limit]), len(found) > limit


def _is_after(place: tuple[int, int], after: tuple[int, int] | None) -> bool:
    return after is None or (-place[0], place[1]) > (-after[0], after[1])


@dataclass(frozen=True, slots=True)
class _UseSearch:
    """One search in the index."""

    connection: AsyncConnection
    tenant: str
    query: UseQuery
    max_related: int

    async def find_related_ways(self) -> dict[tuple[str, str], UseWay]:
        """Return the ways to the calls of all sessions with relatives, or with a text sought."""
        only = self.query.session
        among = None if only is None else await self._load_family(only)
        found = await self._find_sessions(
            has_relatives=True, most=self.max_related + 1, among=among
        )
        roots = [session for _, session in found]
        roots += [each for each in self.query.texts if among is None or each in among]
        ways = await self._follow_ways(roots, self.max_related)
        return {key: way for key, way in ways.items() if only in {None, key[0]}}

    async def load_single_uses(
        self, reached: Collection[str], most: int, after: tuple[int, int] | None
    ) -> list[ListedUse]:
        """Return the uses by sessions without relatives, until there are `most`; newest first."""
        only, upto = self.query.session, after[0] if after else None
        uses: list[ListedUse] = []
        while True:
            found = await self._find_sessions(
                has_relatives=False, most=most, among=None if only is None else [only], upto=upto
            )
            singles = [each for _, each in found if each not in reached]
            ways = await self._follow_ways(singles, len(singles))
            listed = _iterate_uses(self.connection, self.tenant, ways)
            uses += [use async for use in listed if _is_after(use.place, after)]
            if len(uses) >= most or len(found) < most:
                return uses
            upto = found[-1][0] - 1

    async def _follow_ways(self, roots: Iterable[str], most: int) -> dict[tuple[str, str], UseWay]:
        """Return the shortest way to each call that had the source, by session and call.

        The ways begin in `roots`, and lead through at most that many sessions.
        """
        ways: dict[tuple[str, str], UseWay] = {}
        texts: defaultdict[str, dict[TextNode, UseWay]] = defaultdict(dict)
        due = dict.fromkeys(roots)
        seen = set(due)
        for session in seen & self.query.texts.keys():
            texts[session][self.query.texts[session]] = ()
        while due:
            if len(seen) > most:
                raise _create_refusal(most)
            batch = list(due)[:SESSION_BATCH]
            for session in batch:
                del due[session]
            for record in await load_indexed_sessions(self.connection, self.tenant, batch):
                traced = await asyncio.to_thread(
                    trace_session,
                    record,
                    self.query.sources,
                    texts[record.session],
                    replies=self.query.replies,
                )
                ways |= {(record.session, call): way for call, way in traced.calls.items()}
                for (session, node), way in traced.passed_on.items():
                    if is_shorter_way(way, texts[session].get(node)):
                        texts[session][node] = way
                        due[session] = None
                        seen.add(session)
        return ways

    async def _load_family(self, session: str) -> set[str]:
        """Return the session and all that it is related to, near or far."""
        family, due = {session}, [session]
        columns = SESSIONS.c
        while due:
            batch, due = due[:NAME_BATCH], due[NAME_BATCH:]
            query = select(columns.session, columns.origin_session).where(
                match_tenant(SESSIONS, self.tenant),
                or_(columns.session.in_(batch), columns.origin_session.in_(batch)),
            )
            rows = (await self.connection.execute(query)).all()
            new = {name for row in rows for name in row if name is not None} - family
            family |= new
            due += sorted(new)
            if len(family) > self.max_related:
                raise _create_refusal(self.max_related)
        return family

    async def _find_sessions(
        self,
        *,
        has_relatives: bool,
        most: int,
        among: Collection[str] | None = None,
        upto: int | None = None,
    ) -> list[tuple[int, str]]:
        """Return the newest sessions that have one of the sources themselves, with positions.

        `upto` is the last position that counts.
        """
        columns, found = SESSIONS.c, set[tuple[int, str]]()
        related = _match_relatives(self.tenant)
        for having in _list_source_queries(self.tenant, self.query.sources):
            newest = (
                select(columns.opened_position, columns.session)
                .where(
                    match_tenant(SESSIONS, self.tenant),
                    columns.session.in_(having),
                    related if has_relatives else not_(related),
                )
                .order_by(columns.opened_position.desc())
                .limit(most)
            )
            if upto is not None:
                newest = newest.where(columns.opened_position <= upto)
            if among is not None:
                newest = newest.where(columns.session.in_(among))
            rows = (await self.connection.execute(newest)).all()
            found |= {(row.opened_position, row.session) for row in rows}
        return sorted(found, reverse=True)[:most]


def _create_refusal(most: int) -> Refused:
    detail = f"it reached more than {most:,} sessions that are related to others"
    fix = "ask for one `session`, or for a narrower source, such as one version"
    return Refused("too-many-uses", detail, field="source", fix=fix)


def _match_relatives(tenant: str) -> ColumnElement[bool]:
    """Match the sessions that a source may reach from another session, or leave to one."""
    relative = SESSIONS.alias("relative")
    return or_(
        SESSIONS.c.origin_session.is_not(None),
        exists().where(
            match_tenant(relative, tenant), relative.c.origin_session == SESSIONS.c.session
        ),
    )


def _list_source_queries(
    tenant: str, sources: Collection[StoredSource]
) -> Iterator[Select[tuple[str]]]:
    """Yield queries of the names of the sessions that have one of these sources themselves."""
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
            yield select(table.c.session).where(match_tenant(table, tenant), column.in_(batch))


def _split_batches(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]


async def _iterate_uses(
    connection: AsyncConnection, tenant: str, ways: Mapping[tuple[str, str], UseWay]
) -> AsyncIterator[ListedUse]:
    """Yield the calls with what a list shows of them."""
    sessions = list(dict.fromkeys(session for session, _ in ways))
    for batch in _split_batches(sessions, SESSION_BATCH):
        calls = await load_session_rows(
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
