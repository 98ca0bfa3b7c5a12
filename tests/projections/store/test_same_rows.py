"""The same events give the same rows, for any batches and either database."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.projections.store.folding import another, fold, rows_of
from tests.projections.store.histories import Step, Telling, everything, histories
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.projections.store.write.projection_positions import clear_hidden_builds

# All examples of a test share a database; each has its own builds.
_shared = settings(
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@_shared
@given(steps=histories, sizes=st.lists(st.integers(1, 7), min_size=1, max_size=5))
async def test_rows_folded_as_events_came_equal_rows_folded_at_once(
    store: ReadModelStore, steps: Sequence[Step], sizes: list[int]
) -> None:
    raws = await everything(await Telling().tell(steps))
    bit_by_bit = await another(store)
    rest, portions = raws, itertools.cycle(sizes)
    while rest:
        size = next(portions)
        bit_by_bit, _ = await fold(store, bit_by_bit, rest[:size])
        rest = rest[size:]
    at_once, _ = await fold(store, await another(store), raws)
    assert await rows_of(store, at_once.build) == await rows_of(store, bit_by_bit.build)
    await clear_hidden_builds(store)


@_shared
@given(steps=histories)
async def test_both_databases_hold_the_same_rows(
    tmp_path: Path, postgres_url: str, steps: Sequence[Step]
) -> None:
    raws = await everything(await Telling().tell(steps))
    found = []
    for url in (f"sqlite:///{tmp_path / 'rows.db'}", postgres_url):
        store = open_store(url)
        await prepare_schema(store)
        folded, _ = await fold(store, await another(store), raws)
        found.append(await rows_of(store, folded.build))
        await clear_hidden_builds(store)
        await store.close()
    assert found[0] == found[1]
