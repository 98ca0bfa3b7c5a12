"""The index of uses finds every call that a search through all manifests finds, and no other."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.projections.store.row_fold import begin_hidden_build, fold_events
from tests.projections.store.session_histories import read_all_events
from tests.projections.store.use_histories import (
    SOUGHT_SOURCES,
    SOUGHT_TEXTS,
    DrawnSessions,
    NaiveSearch,
    draw_sessions,
    store_sessions,
)
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.source_uses import UseQuery, find_use_ways
from turnlog.projections.store.write.projection_positions import (
    clear_hidden_builds,
    switch_to_build,
)
from turnlog.projections.uses.use_records import StoredSource, TextNode


@pytest.mark.slow("rows are built many times over, on both databases")
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    drawn=draw_sessions(),
    sought=st.sampled_from(SOUGHT_SOURCES) | SOUGHT_TEXTS,
    follows_replies=st.booleans(),
)
async def test_index_finds_the_calls_that_a_search_through_all_events_finds(
    store: ReadModelStore,
    drawn: DrawnSessions,
    sought: StoredSource | tuple[str, TextNode],
    *,
    follows_replies: bool,
) -> None:
    log, events = await store_sessions(drawn)
    source, text = (sought, None) if isinstance(sought, StoredSource) else (None, sought)
    build, poisons = await fold_events(
        store, await begin_hidden_build(store), await read_all_events(log)
    )
    assert poisons == []
    query = UseQuery(
        sources=frozenset({source} if source else ()),
        texts=dict([text]) if text else {},
        replies=follows_replies,
    )
    async with store.open_writer() as connection:
        await switch_to_build(connection, build)
    async with store.open_reader() as connection:
        found = await find_use_ways(connection, "t", query)
    await clear_hidden_builds(store)
    naive = NaiveSearch(events, source=source, text=text, replies=follows_replies)
    assert set(found) == naive.find_calls()
