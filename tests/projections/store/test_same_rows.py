"""The same events give the same rows, for any batches and either database."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from tests.faults.suite_extent import choose_examples
from tests.projections.store.row_fold import begin_hidden_build, fold_events, read_rows
from tests.projections.store.session_histories import (
    HISTORIES,
    HistoryStep,
    StoredHistory,
    StoredSession,
    build_completed,
    build_opened,
    build_submitted,
    read_all_events,
)
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.schema.read_model_tables import COMMANDS
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.projections.store.write.batch_apply import rebuild_session
from turnlog.projections.store.write.projection_positions import clear_hidden_builds
from turnlog.projections.store.write.quarantining_fold import parse_owner
from turnlog.projections.store.write.row_changes import COPY_ROWS, PutRow, write_changes

# All examples of a test share a database; each has its own builds.
_shared = settings(
    max_examples=choose_examples(10),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.slow("rows are built many times over, on both databases")
@_shared
@given(steps=HISTORIES, sizes=st.lists(st.integers(1, 7), min_size=1, max_size=5))
async def test_rows_folded_in_batches_equal_rows_folded_at_once(
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


@pytest.mark.slow("rows are built many times over, on both databases")
@_shared
@given(steps=HISTORIES)
async def test_rows_of_a_session_that_are_made_again_are_the_same(
    store: ReadModelStore, steps: Sequence[HistoryStep]
) -> None:
    raws = await read_all_events(await StoredHistory().append_steps(steps))
    folded, _ = await fold_events(store, await begin_hidden_build(store), raws)
    before = await read_rows(store, folded.build)
    owners = {parse_owner(raw.subject) for raw in raws}
    for tenant, session in sorted(owners):
        own = [raw for raw in raws if parse_owner(raw.subject) == (tenant, session)]
        async with store.open_writer() as connection:
            await rebuild_session(connection, tenant, session, own)
    assert await read_rows(store, folded.build) == before
    await clear_hidden_builds(store)


@pytest.mark.slow("rows are built many times over, on both databases")
@_shared
@given(steps=HISTORIES)
async def test_both_databases_contain_the_same_rows(
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


async def test_long_log_folded_at_once_yields_the_rows_of_one_folded_in_batches(
    store: ReadModelStore,
) -> None:
    story = StoredSession(log=MemoryLog())
    await story.append_events(build_opened())
    for turn in range(1, COPY_ROWS + 2):
        await story.append_events(build_submitted(turn, "a\0b"), build_completed(turn, "c"))
    raws = await read_all_events(story.log)
    bit_by_bit = await begin_hidden_build(store)
    for after in range(0, len(raws), 20):
        bit_by_bit, _ = await fold_events(store, bit_by_bit, raws[after : after + 20])
    at_once, _ = await fold_events(store, await begin_hidden_build(store), raws)
    rows = await read_rows(store, at_once.build)
    assert len(rows["turns"]) == COPY_ROWS + 1
    assert rows == await read_rows(store, bit_by_bit.build)


async def test_many_new_rows_are_copied_into_postgres(postgres_url: str) -> None:
    store, statements = open_store(postgres_url), list[str]()
    await prepare_schema(store)
    build = (await begin_hidden_build(store)).build

    def note_statement(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    event.listen(store.engine.sync_engine, "before_cursor_execute", note_statement)
    rows = [
        PutRow(COMMANDS, ("t", "s", f"{each}"), {"hash": "h", "sequence": each})
        for each in range(COPY_ROWS)
    ]
    await store.run_writer(lambda connection: write_changes(connection, build, rows))
    assert not [each for each in statements if "commands" in each]
    assert len((await read_rows(store, build))["commands"]) == COPY_ROWS
    await store.close()


async def test_bulk_upsert_updates_rows_that_already_exist(store: ReadModelStore) -> None:
    def build_commands(sequences: range) -> list[PutRow]:
        return [
            PutRow(COMMANDS, ("t", "s", f"{each % 1_000}"), {"hash": "h", "sequence": each})
            for each in sequences
        ]

    build = (await begin_hidden_build(store)).build
    before, after = build_commands(range(COPY_ROWS)), build_commands(range(1_050, 1_400))
    await store.run_writer(lambda connection: write_changes(connection, build, before))
    await store.run_writer(lambda connection: write_changes(connection, build, after))
    found = {int(str(row[2])): row[4] for row in (await read_rows(store, build))["commands"]}
    assert found == {key: key if key < 50 else key + 1_000 for key in range(400)}
