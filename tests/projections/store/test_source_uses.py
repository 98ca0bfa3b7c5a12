"""The index of uses finds every call that a search through all manifests finds, and no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from tests.faults.suite_extent import choose_examples
from tests.projections.store.row_fold import begin_hidden_build, fold_events
from tests.projections.store.session_histories import read_all_events
from tests.projections.store.use_histories import (
    CHILD,
    FORK,
    PARENT,
    SINGLE,
    SOUGHT_SOURCES,
    DrawnSessions,
    NaiveSearch,
    build_passed_texts,
    draw_sessions,
    store_crowd,
    store_sessions,
)
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.source_uses import UseQuery, list_uses
from turnlog.projections.store.write.projection_positions import (
    clear_hidden_builds,
    switch_to_build,
)
from turnlog.projections.uses.use_records import EventNode, StoredSource, TextNode, TurnNode

Sought = StoredSource | tuple[str, TextNode]


def list_texts(events: Sequence[RecordedEvent]) -> Sequence[Sought]:
    """List the turns and the events with a text that may be sought."""
    sessions = (PARENT, CHILD, FORK, SINGLE)
    turns = [(session, TurnNode(turn)) for session in sessions for turn in range(1, 5)]
    return turns + [
        (each.session, EventNode(each.sequence))
        for each in events
        if not isinstance(each.event, ContextAssembled)
    ]


MAX_SEARCHES = 8
"""How many sources are sought in one set of sessions: those that the most calls had."""


def find_calls(
    events: Sequence[RecordedEvent], sought: Sought, *, replies: bool
) -> set[tuple[str, str]]:
    """Find the calls that had a source by the plain search."""
    source, text = (sought, None) if isinstance(sought, StoredSource) else (None, sought)
    return NaiveSearch(events, source=source, text=text, replies=replies).find_calls()


def build_query(sought: Sought, *, replies: bool) -> UseQuery:
    if isinstance(sought, StoredSource):
        return UseQuery(sources=frozenset({sought}), replies=replies)
    return UseQuery(texts=dict([sought]), replies=replies)


async def list_pages(
    connection: AsyncConnection, query: UseQuery, *, limit: int, max_related: int = 100
) -> list[list[tuple[str, str]]]:
    """Return the session and call of each use, by page; the newest session must be first."""
    pages: list[list[tuple[str, str]]] = []
    after: tuple[int, int] | None = None
    while True:
        uses, has_more = await list_uses(
            connection, "t", query, limit=limit, after=after, max_related=max_related
        )
        keys = [(-use.place[0], use.place[1]) for use in uses]
        assert keys == sorted(keys)
        assert after is None or all(key > (-after[0], after[1]) for key in keys)
        pages.append([(use.session, use.call) for use in uses])
        if not has_more:
            return pages
        assert len(uses) == limit
        after = uses[-1].place


@pytest.mark.slow("rows are built many times over, on both databases")
@settings(
    max_examples=choose_examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(drawn=draw_sessions(), replies=st.booleans())
@example(drawn=build_passed_texts(), replies=False)
async def test_index_finds_the_calls_that_a_search_through_all_events_finds(
    store: ReadModelStore, drawn: DrawnSessions, *, replies: bool
) -> None:
    log, events = await store_sessions(drawn)
    build, poisons = await fold_events(
        store, await begin_hidden_build(store), await read_all_events(log)
    )
    assert poisons == []
    # Most texts of drawn sessions are in no prompt, so all are searched for and few are compared.
    expected = [
        (sought, find_calls(events, sought, replies=replies))
        for sought in (*SOUGHT_SOURCES, *list_texts(events))
    ]
    expected.sort(key=lambda each: len(each[1]), reverse=True)
    async with store.open_writer() as connection:
        await switch_to_build(connection, build)
    async with store.open_reader() as connection:
        for sought, calls in (*expected[:MAX_SEARCHES], expected[-1]):
            pages = await list_pages(connection, build_query(sought, replies=replies), limit=2)
            found = [call for page in pages for call in page]
            assert (len(found), set(found)) == (len(calls), calls), sought
    await clear_hidden_builds(store)


SEGMENT = UseQuery(sources=frozenset({StoredSource("segment", "1")}))

SINGLES = [f"single-{number}" for number in range(9)]

FORKS = [f"fork-{number}" for number in range(4)]


async def fold_crowd(store: ReadModelStore) -> None:
    """Fold sessions without relatives between an original and its forks, all with one source."""
    log = MemoryLog()
    await store_crowd(log, SINGLES[:4])
    await store_crowd(log, ["original"])
    await store_crowd(log, SINGLES[4:])
    await store_crowd(log, FORKS, "original")
    build, poisons = await fold_events(
        store, await begin_hidden_build(store), await read_all_events(log)
    )
    assert poisons == []
    async with store.open_writer() as connection:
        await switch_to_build(connection, build)


async def test_page_loads_no_more_single_sessions_than_it_has_uses(store: ReadModelStore) -> None:
    await fold_crowd(store)
    named = set[object]()
    async with store.open_reader() as connection:
        assert connection.sync_connection

        def record_names(*call: object) -> None:
            named.update(cast("Sequence[object]", call[3]))

        event.listen(connection.sync_connection, "before_cursor_execute", record_names)
        pages = await list_pages(connection, SEGMENT, limit=20)
        assert [session for session, _ in pages[0]] == [
            *reversed(FORKS), *reversed(SINGLES[4:]), "original", *reversed(SINGLES[:4]),
        ]  # fmt: skip
        named.clear()
        uses, has_more = await list_uses(connection, "t", SEGMENT, limit=2, after=(7, 99))
        assert (len(uses), has_more) == (2, True)
    assert len(named & set(SINGLES)) <= 4, "the one of `after`, the page, and the one after it"
    await clear_hidden_builds(store)


async def test_source_that_reached_too_many_related_sessions_is_refused(
    store: ReadModelStore,
) -> None:
    await fold_crowd(store)
    only_single = replace(SEGMENT, session=SINGLES[0])
    async with store.open_reader() as connection:
        pages = await list_pages(connection, SEGMENT, limit=20, max_related=5)
        assert len(pages[0]) == 14
        with pytest.raises(Refused, match="too-many-uses"):
            await list_pages(connection, SEGMENT, limit=20, max_related=4)
        with pytest.raises(Refused, match="too-many-uses"):
            await list_pages(
                connection, replace(SEGMENT, session="original"), limit=20, max_related=4
            )
        narrow = await list_pages(connection, only_single, limit=20, max_related=4)
        assert narrow == [[(SINGLES[0], "1.2")]]
    await clear_hidden_builds(store)
