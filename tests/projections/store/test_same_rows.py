"""The same events give the same rows, for any batches and either database."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.projections.store.row_fold import begin_hidden_build, fold_events, read_rows
from tests.projections.store.session_histories import (
    HISTORIES,
    HistoryStep,
    StoredHistory,
    read_all_events,
)
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.projections.store.write.projection_positions import clear_hidden_builds

# All examples of a test share a database; each has its own builds.
_shared = settings(
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@_shared
@given(steps=HISTORIES, sizes=st.lists(st.integers(1, 7), min_size=1, max_size=5))
async def test_rows_folded_as_events_came_equal_rows_folded_at_once(
    store: ReadModelStore, steps: Sequence[HistoryStep], sizes: list[int]
) -> None:
    raws = await read_all_events(await StoredHistory().append_steps(steps))
    bit_by_bit = await begin_hidden_build(store)
    rest, portions = raws, itertools.cycle(sizes)
    while rest:
        size = next(portions)
        bit_by_bit, _ = await fold_events(store, bit_by_bit, rest[:size])
        rest = rest[size:]
    at_once, _ = await fold_events(store, await begin_hidden_build(store), raws)
    assert await read_rows(store, at_once.build) == await read_rows(store, bit_by_bit.build)
    await clear_hidden_builds(store)


@_shared
@given(steps=HISTORIES)
async def test_both_databases_hold_the_same_rows(
    tmp_path: Path, postgres_url: str, steps: Sequence[HistoryStep]
) -> None:
    raws = await read_all_events(await StoredHistory().append_steps(steps))
    found = []
    for url in (f"sqlite:///{tmp_path / 'rows.db'}", postgres_url):
        store = open_store(url)
        await prepare_schema(store)
        folded, _ = await fold_events(store, await begin_hidden_build(store), raws)
        found.append(await read_rows(store, folded.build))
        await clear_hidden_builds(store)
        await store.close()
    assert found[0] == found[1]
