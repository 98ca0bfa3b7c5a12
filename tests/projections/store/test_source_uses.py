"""The index of uses finds every call that a search through all manifests finds, and no other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.projections.store.row_fold import begin_hidden_build, fold_events
from tests.projections.store.session_histories import read_all_events
from tests.projections.store.use_histories import (
    CHILD,
    FORK,
    PARENT,
    SOUGHT_SOURCES,
    DrawnSessions,
    NaiveSearch,
    build_passed_texts,
    draw_sessions,
    store_sessions,
)
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.source_uses import UseQuery, find_use_ways
from turnlog.projections.store.write.projection_positions import (
    clear_hidden_builds,
    switch_to_build,
)
from turnlog.projections.uses.use_records import EventNode, StoredSource, TextNode, TurnNode

Sought = StoredSource | tuple[str, TextNode]


def list_texts(events: Sequence[RecordedEvent]) -> Sequence[Sought]:
    """List the turns and the events with a text that may be sought."""
    turns = [(session, TurnNode(turn)) for session in (PARENT, CHILD, FORK) for turn in range(1, 5)]
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


@pytest.mark.slow("rows are built many times over, on both databases")
@settings(
    max_examples=60,
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
            found = await find_use_ways(connection, "t", build_query(sought, replies=replies))
            assert set(found) == calls, sought
    await clear_hidden_builds(store)
