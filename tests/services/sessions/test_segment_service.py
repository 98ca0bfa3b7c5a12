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
    async with await NatsServer.start(NatsConfig(tmp_path / "nats")) as server:
        yield server


@pytest_asyncio.fixture(params=["memory", "jetstream"])
async def library(
    request: pytest.FixtureRequest, nats_url: str, fresh_tenant: str
) -> AsyncIterator[SegmentHarness]:
    if request.param == "memory":
        yield SegmentHarness()
        return
    async with open_client(nats_url, StreamOptions()) as on:
        yield SegmentHarness(on.library, on.blobs, tenant=fresh_tenant)


async def gather_segments(
    library: SegmentHarness, *requests: SegmentRequest, locales: tuple[str, ...] = ()
) -> CallSegments:
    return await library.segments.fetch_segments(library.tenant, "s", requests, locales)


async def test_a_call_is_given_exactly_what_it_may_record(library: SegmentHarness) -> None:
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


async def test_an_edit_by_another_process_is_seen_by_the_next_call(library: SegmentHarness) -> None:
    number = await library.add_segment("world", "Mist.", "w")
    (before,) = (await gather_segments(library, WORLD)).segments[WORLD]
    await library.build_second_process("two").handle_command(EditSegment(number, content="Rain."))
    (after,) = (await gather_segments(library, WORLD)).segments[WORLD]
    assert (before.text, after.text, after.source.version) == ("Mist.", "Rain.", 2)
    assert await library.blobs.get_blob(library.tenant, before.source.digest) == b"Mist."


async def test_two_processes_that_edit_at_once_lose_nothing(library: SegmentHarness) -> None:
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


async def test_of_two_edits_of_what_both_have_seen_one_is_told_of_the_other(
    library: SegmentHarness,
) -> None:
    number = await library.add_segment("world", "Mist.", "w")
    edits = (library.build_second_process(f"editor{n}") for n in range(2))
    outcomes = await asyncio.gather(
        *(each.handle_command(EditSegment(number, content=each.name, seen=1)) for each in edits),
        return_exceptions=True,
    )
    (refused,) = (each for each in outcomes if isinstance(each, Refused))
    assert refused.code == "segment-moved"
    assert len((await library.load_library()).segments[number].versions) == 2


async def test_a_key_stands_for_one_command_in_every_process(library: SegmentHarness) -> None:
    add = AddSegment(SegmentInput("core", "Be kind."))
    key = CommandRef("k", compute_digest("body"))
    first = await library.handle_command(add, key)
    again = await library.build_second_process("two").handle_command(add, key)
    assert again.changes == first.changes
    assert len(again.state.segments) == 1
    with pytest.raises(Refused, match="key-reused"):
        await library.handle_command(add, CommandRef("k", compute_digest("other")))


async def test_what_is_known_has_to_do_while_the_library_cannot_be_reached() -> None:
    log = UnreliableSegmentLog(kind=LIBRARY_HISTORY)
    library = SegmentHarness(log)
    await library.add_segment("core", "Be kind.")
    await gather_segments(library, CORE)
    log.away = True
    gathered = await gather_segments(library, CORE)
    assert gathered.stale
    assert [each.text for each in gathered.segments[CORE]] == ["Be kind."]


async def test_many_calls_that_find_more_read_it_once() -> None:
    log = CountingSegmentLog(kind=LIBRARY_HISTORY)
    writing = SegmentHarness(log)
    for number in range(20):
        await writing.add_segment("world", f"Mist {number}.", "w")
    log.read = 0
    starting = writing.build_second_process("another")
    gathered = await asyncio.gather(*(gather_segments(starting, WORLD) for _ in range(30)))
    assert {len(each.segments[WORLD]) for each in gathered} == {20}
    assert log.read == 20


@pytest.mark.slow("a nats-server stops and starts")
async def test_a_stream_that_is_gone_from_a_real_server_is_out_of_reach_and_nothing_worse(
    own_server: NatsServer,
) -> None:
    async with open_client(own_server.url, StreamOptions()) as on:
        library = SegmentHarness(on.library, on.blobs)
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


async def test_a_process_that_knows_nothing_refuses_what_is_required_and_omits_the_rest() -> None:
    log = UnreliableSegmentLog(kind=LIBRARY_HISTORY)
    await SegmentHarness(log).add_segment("core", "Be kind.")
    log.away = True
    starting = SegmentHarness(log)
    gathered = await gather_segments(starting, WORLD)
    assert gathered.segments[WORLD] == ()
    assert [(each.scope, each.ref, each.segment) for each in gathered.omitted] == [
        ("world", "w", None)
    ]
    with pytest.raises(Refused, match="segments-unavailable") as refused:
        await gather_segments(starting, WORLD, CORE)
    assert refused.value.field == "core"


async def test_a_text_that_is_gone_is_omitted_or_refuses_the_turn() -> None:
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
async def test_a_library_that_was_rolled_back_is_not_taken_for_the_one_that_is_known() -> None:
    log = MemoryLog(kind=LIBRARY_HISTORY)
    library = SegmentHarness(log)
    await library.add_segment("core", "one")
    await library.add_segment("core", "two")
    log.stored.clear()
    log.sessions.clear()
    await library.build_second_process("other").add_segment("core", "another")
    with pytest.raises(Corrupt):
        await library.load_library()


async def test_no_edit_is_refused_because_a_follower_lags() -> None:
    log = LaggingSegmentLog(kind=LIBRARY_HISTORY)
    library = SegmentHarness(log)
    await library.add_segment("core", "one")
    log.upto = await log.read_last_event(library.tenant, SEGMENT_FAMILY)
    number = await library.add_segment("core", "two")
    done = await library.build_second_process("two").handle_command(
        EditSegment(number, content="three")
    )
    assert done.changes.edited == (number,)


async def test_an_edit_on_the_library_that_is_cached_reads_nothing() -> None:
    log = CountingSegmentLog(kind=LIBRARY_HISTORY)
    library = SegmentHarness(log)
    number = await library.add_segment("core", "one")
    log.read = log.lookups = 0
    await library.handle_command(EditSegment(number, content="two"))
    assert (log.lookups, log.read) == (0, 0)
