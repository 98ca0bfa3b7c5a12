"""Segment rows follow the library's log through faults of either."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from tests.support.generators.event_samples import build_library_samples
from tests.support.sessions.segment_harness import SegmentHarness
from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.codec import EventDraft, encode_batch
from turnlog.events.content import compute_digest
from turnlog.events.errors import Corrupt
from turnlog.events.model.segment_events import SEGMENT_FAMILY
from turnlog.events.store.memory_log import MemoryBlobStore, MemoryLog
from turnlog.events.store.ports import RawEvent
from turnlog.events.subjects import LIBRARY_HISTORY
from turnlog.events.testing import FIRST_EVENT_TIME
from turnlog.projections.library.segment_inputs import EditSegment, SegmentInput
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.read_your_writes import ProjectionSignal, wait_for_sequence
from turnlog.projections.store.read.row_types import ListedSegment
from turnlog.projections.store.read.segment_queries import SegmentRowFilter, list_segments
from turnlog.projections.store.write.segment_projection import (
    read_segments_position,
    read_segments_sequence,
)
from turnlog.services.projector.segment_projector import SegmentProjector

ANYTHING = SegmentRowFilter()


def build_projector(library: SegmentHarness, store: ReadModelStore) -> SegmentProjector:
    return SegmentProjector(
        log=library.log,
        blobs=library.blobs,
        store=store,
        tenant=library.tenant,
        signal=ProjectionSignal(),
        patience=0,
    )


@asynccontextmanager
async def run_projector(projecting: SegmentProjector) -> AsyncGenerator[asyncio.Task[None]]:
    task = asyncio.create_task(projecting.run())
    try:
        yield task
    finally:
        await cancel_tasks(task)


async def wait_until_folded(projecting: SegmentProjector, library: SegmentHarness) -> None:
    sequence = (await library.load_library()).sequence
    look = partial(read_segments_sequence, projecting.store, library.tenant)
    assert await wait_for_sequence(projecting.signal, look, sequence, within=20)


async def list_segment_rows(
    store: ReadModelStore,
    tenant: str,
    sought: SegmentRowFilter = ANYTHING,
    *,
    after: int = 0,
    limit: int = 100,
) -> list[ListedSegment]:
    async with store.open_reader() as connection:
        found, _ = await list_segments(connection, tenant, sought, after=after, limit=limit)
    return list(found)


async def test_segment_rows_show_the_current_version_of_every_variant(
    store: ReadModelStore,
) -> None:
    library = SegmentHarness()
    projecting = build_projector(library, store)
    async with run_projector(projecting):
        await library.add_segment(
            "core", "Be kind.", tier=1, type="rule", priority="high", locale="en"
        )
        await library.add_segment("npc", "He nods.", "npc.a")
        await library.handle_command(EditSegment(id=1, content="Be kinder."))
        await library.handle_command(EditSegment(id=1, variant="b", content="Be stern."))
        await library.handle_command(EditSegment(id=2, active=False))
        await wait_until_folded(projecting, library)
        found = await list_segment_rows(store, library.tenant)
    rows = [(row.id, row.variant, row.content, row.version, row.active) for row in found]
    assert rows == [
        (1, "a", "Be kinder.", 2, True),
        (1, "b", "Be stern.", 3, True),
        (2, "a", "He nods.", 1, False),
    ]
    assert (found[0].tier, found[0].type, found[0].priority, found[0].locale) == (
        1,
        "rule",
        "high",
        "en",
    )
    assert found[0].edited_by == "tester"


async def test_segment_rows_are_filtered_by_fields_and_text_in_pages(
    store: ReadModelStore,
) -> None:
    library = SegmentHarness()
    await library.import_segments(
        *(SegmentInput(scope="core", content=f"Rule {n}: be KIND.", locale="en") for n in range(5)),
        SegmentInput(scope="npc", content="100% sure.", ref="npc.a", type="npc_cue", active=False),
    )
    await library.handle_command(EditSegment(id=2, variant="b", content="Be stern."))
    await build_projector(library, store).rebuild_segments()
    find = partial(list_segment_rows, store, library.tenant)
    assert [row.id for row in await find(SegmentRowFilter(scope="npc"))] == [6]
    assert [row.id for row in await find(SegmentRowFilter(ref="npc.a", type="npc_cue"))] == [6]
    assert [row.id for row in await find(SegmentRowFilter(active=False))] == [6]
    assert [row.id for row in await find(SegmentRowFilter(q="be kind"))] == [1, 2, 3, 4, 5]
    assert [row.id for row in await find(SegmentRowFilter(q="100%"))] == [6]
    assert [row.id for row in await find(SegmentRowFilter(q="100_"))] == []
    assert [row.id for row in await find(after=1, limit=2)] == [2, 2, 3]
    assert [row.id for row in await find(after=3, limit=2)] == [4, 5]
    assert await list_segment_rows(store, "other") == []


async def test_segment_edits_made_without_a_projector_are_folded_later(
    store: ReadModelStore,
) -> None:
    library = SegmentHarness()
    projecting = build_projector(library, store)
    await library.add_segment("core", "one")
    async with run_projector(projecting):
        await wait_until_folded(projecting, library)
    await library.handle_command(EditSegment(id=1, content="two"))
    async with run_projector(projecting):
        await wait_until_folded(projecting, library)
    assert [row.content for row in await list_segment_rows(store, library.tenant)] == ["two"]


async def test_two_projectors_give_the_same_segment_rows_as_one(store: ReadModelStore) -> None:
    library = SegmentHarness()
    projecting = build_projector(library, store)
    async with run_projector(projecting), run_projector(build_projector(library, store)):
        for number in range(10):
            await library.add_segment("core", f"text {number}")
        await wait_until_folded(projecting, library)
    live = await list_segment_rows(store, library.tenant)
    assert [row.content for row in live] == [f"text {number}" for number in range(10)]
    await projecting.rebuild_segments()
    assert await list_segment_rows(store, library.tenant) == live


async def test_altered_segment_rows_are_corrected_by_a_rebuild(store: ReadModelStore) -> None:
    library = SegmentHarness()
    await library.add_segment("core", "one")
    await build_projector(library, store).rebuild_segments()
    right = await list_segment_rows(store, library.tenant)
    async with store.open_writer() as connection:
        await connection.execute(text("UPDATE segments SET content = 'forged'"))
    await build_projector(library, store).rebuild_segments()
    assert await list_segment_rows(store, library.tenant) == right
    async with store.open_reader() as connection:
        count = await connection.scalar(text("SELECT count(*) FROM segments"))
    assert count == 1


async def test_log_of_another_library_is_never_folded_onto_existing_rows(
    store: ReadModelStore,
) -> None:
    library = SegmentHarness()
    await library.add_segment("core", "one")
    await build_projector(library, store).rebuild_segments()
    other = SegmentHarness(log=MemoryLog(created="2030-01-01T00:00:00Z", kind=LIBRARY_HISTORY))
    await other.add_segment("core", "another")
    with pytest.raises(Corrupt, match="rebuild"):
        await build_projector(other, store).run()
    rolled_back = SegmentHarness()
    await rolled_back.add_segment("core", "different")
    with pytest.raises(Corrupt, match="rebuild"):
        await build_projector(rolled_back, store).run()
    assert [row.content for row in await list_segment_rows(store, library.tenant)] == ["one"]


async def test_invalid_library_event_stops_only_its_own_tenant(store: ReadModelStore) -> None:
    log, blobs = MemoryLog(kind=LIBRARY_HISTORY), MemoryBlobStore()
    own_library, other_library = (
        SegmentHarness(log=log, blobs=blobs),
        SegmentHarness(log=log, blobs=blobs, tenant="theirs"),
    )
    await own_library.add_segment("core", "one")
    event = build_library_samples()["segments-added"]
    batch = encode_batch(
        tenant="t",
        session=SEGMENT_FAMILY,
        after=None,
        drafts=[
            EventDraft(event=event, id="bad", at=FIRST_EVENT_TIME, source="/test", actor="eve")
        ],
        kind=LIBRARY_HISTORY,
    )
    log.stored.append(RawEvent("library.t.segments.added", 2, batch.messages[0].payload))
    await other_library.add_segment("core", "two")
    projecting = build_projector(own_library, store)
    with capture_logs() as lines:
        async with run_projector(projecting):
            await wait_until_folded(projecting, other_library)
    assert [row.content for row in await list_segment_rows(store, "theirs")] == ["two"]
    assert [row.content for row in await list_segment_rows(store, "t")] == ["one"]
    (stopped,) = [line for line in lines if line["event"] == "library-stopped"]
    assert (stopped["tenant"], "sequence 1 where 2 is due" in stopped["reason"]) == ("t", True)


async def test_segment_with_a_missing_blob_has_a_row_without_text(store: ReadModelStore) -> None:
    blobs = MemoryBlobStore()
    library = SegmentHarness(blobs=blobs)
    await library.add_segment("core", "one")
    blobs.blobs.pop((library.tenant, compute_digest("one")))
    await build_projector(library, store).rebuild_segments()
    (row,) = await list_segment_rows(store, library.tenant)
    assert (row.content, row.digest) == (None, compute_digest("one"))
    async with store.open_reader() as connection:
        at = await read_segments_position(connection)
    assert at is not None
    assert at.position == 1
