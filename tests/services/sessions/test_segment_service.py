"""Segments for calls: current after every edit, exact, and errors when unreachable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.sessions.segment_harness import SegmentHarness
from turnlog.events.codec import CommandRef
from turnlog.events.content import compute_digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Corrupt, Refused, Unavailable
from turnlog.events.jetstream.jetstream_client import open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.model.segment_events import SEGMENT_FAMILY
from turnlog.events.store.memory_log import MemoryBlobStore, MemoryLog
from turnlog.events.subjects import LIBRARY_HISTORY
from turnlog.projections.library.segment_inputs import AddSegment, EditSegment, SegmentInput
from turnlog.projections.library.segment_selection import CallSegments, SegmentRequest
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

CORE, WORLD = SegmentRequest("core", required=True), SegmentRequest("world", "w")


class UnreliableSegmentLog(MemoryLog):
    """A log that can be out of reach."""

    away = False

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        """Find the last event, or nobody."""
        if self.away:
            raise Unavailable("nats", "gone for a test")
        return await super().read_last_event(tenant, session, leader=leader)


class CountingSegmentLog(MemoryLog):
    """A log that counts its look-ups of a last event, and the events it gives."""

    read = 0
    lookups = 0

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        self.lookups += 1
        return await super().read_last_event(tenant, session, leader=leader)

    async def read_range(
        self, tenant: str, session: str, after: ChainHead | None, upto: RecordedEvent
    ) -> Sequence[RecordedEvent]:
        """Give events, and count them; others get their turn meanwhile."""
        await asyncio.sleep(0)
        events = await super().read_range(tenant, session, after, upto)
        self.read += len(events)
        return events


class LaggingSegmentLog(MemoryLog):
    """A log whose follower ends at `upto`."""

    upto: RecordedEvent | None = None

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        if self.upto is not None and not leader:
            return self.upto
        return await super().read_last_event(tenant, session, leader=leader)


@pytest_asyncio.fixture
async def own_server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with await NatsServer.start(NatsConfig(data_dir=tmp_path / "nats")) as server:
        yield server


@pytest_asyncio.fixture(params=["memory", "jetstream"])
async def library(
    request: pytest.FixtureRequest, nats_url: str, fresh_tenant: str
) -> AsyncIterator[SegmentHarness]:
    if request.param == "memory":
        yield SegmentHarness()
        return
    async with open_client(nats_url, StreamOptions()) as on:
        yield SegmentHarness(log=on.library, blobs=on.blobs, tenant=fresh_tenant)


async def gather_segments(
    library: SegmentHarness, *requests: SegmentRequest, locales: tuple[str, ...] = ()
) -> CallSegments:
    return await library.segments.fetch_segments(library.tenant, "s", requests, locales)


async def test_call_gets_segments_with_the_sources_that_it_records(library: SegmentHarness) -> None:
    number = await library.add_segment("world", "Mist.", "w", tier=2, type="mood", priority="low")
    gathered = await gather_segments(library, CORE, WORLD)
    (picked,) = gathered.segments[WORLD]
    source = picked.source
    assert (source.segment, source.version, source.variant) == (number, 1, "a")
    assert (source.tier, source.type, source.priority) == (2, "mood", "low")
    assert (picked.text, source.digest) == ("Mist.", compute_digest("Mist."))
    assert await library.blobs.get_blob(library.tenant, source.digest) == b"Mist."
    assert gathered.segments[CORE] == ()
    assert not gathered.omitted
    assert not gathered.stale


async def test_edit_by_another_process_is_visible_to_the_next_call(library: SegmentHarness) -> None:
    number = await library.add_segment("world", "Mist.", "w")
    (before,) = (await gather_segments(library, WORLD)).segments[WORLD]
    await library.build_second_process("two").handle_command(
        EditSegment(id=number, content="Rain.")
    )
    (after,) = (await gather_segments(library, WORLD)).segments[WORLD]
    assert (before.text, after.text, after.source.version) == ("Mist.", "Rain.", 2)
    assert await library.blobs.get_blob(library.tenant, before.source.digest) == b"Mist."


async def test_concurrent_edits_of_two_processes_are_all_recorded(library: SegmentHarness) -> None:
    editors = [library.build_second_process(f"editor{n}") for n in range(2)]
    await asyncio.gather(
        *(
            editor.add_segment("world", f"{editor.name} {n}", "w")
            for n in range(10)
            for editor in editors
        )
    )
    loaded = await library.load_library()
    assert sorted(loaded.segments) == list(range(1, 21))
    assert loaded.sequence == 20
    assert {editor.name: (await editor.load_library()).segments for editor in editors} == {
        "editor0": loaded.segments,
        "editor1": loaded.segments,
    }


async def test_one_of_two_edits_of_the_same_segment_version_is_refused(
    library: SegmentHarness,
) -> None:
    number = await library.add_segment("world", "Mist.", "w")
    edits = (library.build_second_process(f"editor{n}") for n in range(2))
    outcomes = await asyncio.gather(
        *(each.handle_command(EditSegment(id=number, content=each.name, seen=1)) for each in edits),
        return_exceptions=True,
    )
    (refused,) = (each for each in outcomes if isinstance(each, Refused))
    assert refused.code == "segment-moved"
    assert len((await library.load_library()).segments[number].versions) == 2


async def test_segment_command_key_is_applied_once_across_processes(
    library: SegmentHarness,
) -> None:
    add = AddSegment(SegmentInput(scope="core", content="Be kind."))
    key = CommandRef("k", compute_digest("body"))
    first = await library.handle_command(add, key)
    again = await library.build_second_process("two").handle_command(add, key)
    assert again.changes == first.changes
    assert len(again.state.segments) == 1
    with pytest.raises(Refused, match="key-reused"):
        await library.handle_command(add, CommandRef("k", compute_digest("other")))


async def test_cached_library_is_used_while_the_log_is_unreachable() -> None:
    log = UnreliableSegmentLog(kind=LIBRARY_HISTORY)
    library = SegmentHarness(log=log)
    await library.add_segment("core", "Be kind.")
    await gather_segments(library, CORE)
    log.away = True
    gathered = await gather_segments(library, CORE)
    assert gathered.stale
    assert [each.text for each in gathered.segments[CORE]] == ["Be kind."]


async def test_concurrent_calls_read_new_library_events_once() -> None:
    log = CountingSegmentLog(kind=LIBRARY_HISTORY)
    writing = SegmentHarness(log=log)
    for number in range(20):
        await writing.add_segment("world", f"Mist {number}.", "w")
    log.read = 0
    starting = writing.build_second_process("another")
    gathered = await asyncio.gather(*(gather_segments(starting, WORLD) for _ in range(30)))
    assert {len(each.segments[WORLD]) for each in gathered} == {20}
    assert log.read == 20


@pytest.mark.slow("a nats-server stops and starts")
async def test_deleted_library_stream_counts_as_unavailable(
    own_server: NatsServer,
) -> None:
    async with open_client(own_server.url, StreamOptions()) as on:
        library = SegmentHarness(log=on.library, blobs=on.blobs)
        await library.add_segment("core", "Be kind.")
        await gather_segments(library, CORE)
        await on.connection.nc.jetstream().delete_stream("LIBRARY")
        gathered = await gather_segments(library, CORE, WORLD)
        assert gathered.stale
        assert [each.text for each in gathered.segments[CORE]] == ["Be kind."]
        with pytest.raises(Refused, match="segments-unavailable"):
            await gather_segments(library.build_second_process("another"), CORE)
        with pytest.raises(Unavailable):
            await library.add_segment("core", "Be stern.")


async def test_uncached_unreachable_library_refuses_required_segments_and_omits_others() -> None:
    log = UnreliableSegmentLog(kind=LIBRARY_HISTORY)
    await SegmentHarness(log=log).add_segment("core", "Be kind.")
    log.away = True
    starting = SegmentHarness(log=log)
    gathered = await gather_segments(starting, WORLD)
    assert gathered.segments[WORLD] == ()
    assert [(each.scope, each.ref, each.segment) for each in gathered.omitted] == [
        ("world", "w", None)
    ]
    with pytest.raises(Refused, match="segments-unavailable") as refused:
        await gather_segments(starting, WORLD, CORE)
    assert refused.value.field == "core"


async def test_segment_with_a_missing_blob_is_omitted_or_refuses_the_turn() -> None:
    blobs = MemoryBlobStore()
    library = SegmentHarness(blobs=blobs)
    await library.add_segment("world", "Mist.", "w")
    await library.add_segment("world", "Rain.", "w")
    blobs.blobs.pop((library.tenant, compute_digest("Mist.")))
    gathered = await gather_segments(library, WORLD)
    assert [each.text for each in gathered.segments[WORLD]] == ["Rain."]
    assert [each.segment for each in gathered.omitted] == [1]
    with pytest.raises(Refused, match="segments-unavailable"):
        await gather_segments(library, SegmentRequest("world", "w", required=True))


@pytest.mark.slow("a nats-server stops and starts")
async def test_rolled_back_library_is_reported_as_corrupt() -> None:
    log = MemoryLog(kind=LIBRARY_HISTORY)
    library = SegmentHarness(log=log)
    await library.add_segment("core", "one")
    await library.add_segment("core", "two")
    log.stored.clear()
    log.sessions.clear()
    await library.build_second_process("other").add_segment("core", "another")
    with pytest.raises(Corrupt):
        await library.load_library()


async def test_segment_edit_is_not_refused_because_of_a_lagging_follower() -> None:
    log = LaggingSegmentLog(kind=LIBRARY_HISTORY)
    library = SegmentHarness(log=log)
    await library.add_segment("core", "one")
    log.upto = await log.read_last_event(library.tenant, SEGMENT_FAMILY)
    number = await library.add_segment("core", "two")
    done = await library.build_second_process("two").handle_command(
        EditSegment(id=number, content="three")
    )
    assert done.changes.edited == (number,)


async def test_segment_edit_on_a_cached_library_reads_no_events() -> None:
    log = CountingSegmentLog(kind=LIBRARY_HISTORY)
    library = SegmentHarness(log=log)
    number = await library.add_segment("core", "one")
    log.read = log.lookups = 0
    await library.handle_command(EditSegment(id=number, content="two"))
    assert (log.lookups, log.read) == (0, 0)
