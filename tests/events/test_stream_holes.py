"""A stream that lost messages: every reader ends at the hole and names it, and none waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from tests.events.log_sessions import append_one_by_one, require_appended
from tests.support.servers.store_damage import StoredStream
from turnlog.events.codec import encode_batch
from turnlog.events.content import compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import AlteredBlob, Corrupt, StreamHole
from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.model.turn_events import TurnExcluded
from turnlog.events.store.memory_log import MemoryLog
from turnlog.events.store.ports import EventLog
from turnlog.events.subjects import (
    BLOBS_STREAM,
    SESSIONS_STREAM,
    build_blob_subject,
)
from turnlog.events.testing import make_drafts
from turnlog.projections.audit.verify.audit_findings import AuditFinding
from turnlog.services.audit.record_scan import scan_blobs
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

LENGTH = 12

TEXT = b"a prompt"

READ_TIMEOUT = 30.0
"""Seconds until a reader counts as waiting forever; the server tells how far it is every two."""


async def read_until_hole(
    log: EventLog, tenant: str | None, after: int = 0, *, live: bool = False
) -> tuple[list[int], StreamHole]:
    places: list[int] = []
    async with (
        asyncio.timeout(READ_TIMEOUT),
        aclosing(log.stream_raw_events(tenant, after, live=live)) as bulks,
    ):
        try:
            async for bulk in bulks:
                places += [raw.stream_sequence for raw in bulk]
        except StreamHole as hole:
            return places, hole
    pytest.fail(f"no hole after {places}")


async def damage_store(
    folder: Path, damage: Callable[[StoredStream], None], stream: str = SESSIONS_STREAM
) -> None:
    """Write two sessions of two tenants in turn, stop the server, and damage its store."""
    async with (
        await NatsServer.start(NatsConfig(data_dir=folder)) as server,
        open_client(server.url, StreamOptions()) as on,
    ):
        await append_one_by_one(on.log, "t", "s", LENGTH // 2)
        await append_one_by_one(on.log, "other", "s", LENGTH // 2)
        await on.blobs.put_blob("t", TEXT)
    damage(StoredStream(folder, stream))


@pytest.mark.slow("a nats-server stops or starts")
@pytest.mark.parametrize("lost", [1, 4, 9, LENGTH])
async def test_flipped_byte_is_a_hole_that_ends_every_reader(tmp_path: Path, lost: int) -> None:
    await damage_store(tmp_path, lambda stream: stream.flip_byte(lost))
    async with (
        await NatsServer.start(NatsConfig(data_dir=tmp_path)) as server,
        open_client(server.url, StreamOptions()) as on,
    ):
        for live in (False, True):
            places, hole = await read_until_hole(on.log, None, live=live)
            assert places == list(range(1, lost))
            assert (hole.stream, hole.first, hole.last) == (SESSIONS_STREAM, lost, lost)
            places, hole = await read_until_hole(on.log, "t", live=live)
            assert (places, hole.first) == (list(range(1, min(lost, LENGTH // 2 + 1))), lost)
        assert str(hole).startswith(f"stream SESSIONS: sequence {lost} is missing")
        assert await read_rest(on, lost) == list(range(lost + 1, LENGTH + 1))


async def read_rest(on: JetStreamClient, after: int) -> list[int]:
    async with aclosing(on.log.stream_raw_events(None, after, live=False)) as bulks:
        return [raw.stream_sequence async for bulk in bulks for raw in bulk]


async def test_session_with_a_lost_last_event_raises_corrupt_and_is_not_empty(
    tmp_path: Path,
) -> None:
    await damage_store(tmp_path, lambda stream: stream.flip_byte(LENGTH))
    async with (
        await NatsServer.start(NatsConfig(data_dir=tmp_path)) as server,
        open_client(server.url, StreamOptions()) as on,
    ):
        # The server would take another first event of this session.
        with pytest.raises(Corrupt, match=f"session.other.s.>, after sequence {LENGTH - 1}"):
            await on.log.read_last_event("other", "s", leader=True)
        assert await on.log.read_last_event("t", "s", leader=True)
        assert await on.log.read_last_event("t", "none", leader=True) is None


async def test_lost_block_is_one_hole_from_the_first_event_to_the_last(tmp_path: Path) -> None:
    await damage_store(tmp_path, lambda stream: stream.block.unlink())
    async with (
        await NatsServer.start(NatsConfig(data_dir=tmp_path)) as server,
        open_client(server.url, StreamOptions()) as on,
    ):
        for tenant in (None, "t"):
            places, hole = await read_until_hole(on.log, tenant)
            assert (places, hole.first, hole.last) == ([], 1, LENGTH)


async def test_cut_tail_is_a_hole_up_to_the_last_sequence_that_the_server_knows(
    tmp_path: Path,
) -> None:
    await damage_store(tmp_path, lambda stream: stream.cut_tail(3))
    async with (
        await NatsServer.start(NatsConfig(data_dir=tmp_path)) as server,
        open_client(server.url, StreamOptions()) as on,
    ):
        places, hole = await read_until_hole(on.log, None)
        assert (places[-1], hole.first, hole.last) == (LENGTH - 3, LENGTH - 2, LENGTH)
        await append_one_by_one(on.log, "t", "later", 1)
        assert (await read_until_hole(on.log, None, live=True))[1].last == LENGTH


@pytest.mark.parametrize("is_counted", [True, False])
async def test_lost_event_of_a_leaf_is_reported_as_missing(
    tmp_path: Path, *, is_counted: bool
) -> None:
    async with (
        await NatsServer.start(NatsConfig(data_dir=tmp_path)) as server,
        open_client(server.url, StreamOptions()) as on,
    ):
        whole, damaged = [await append_exclusions(on.log, session) for session in "ab"]
    lost, stored = damaged[2], StoredStream(tmp_path, SESSIONS_STREAM)
    if is_counted:
        stored.flip_byte(lost.stream_sequence)
    else:
        stored.drop_sequence(lost.stream_sequence)
    async with (
        await NatsServer.start(NatsConfig(data_dir=tmp_path)) as server,
        open_client(server.url, StreamOptions()) as on,
    ):
        leaf = TurnExcluded.leaf
        with pytest.raises(StreamHole, match=f"sequence {lost.stream_sequence} is missing"):
            await on.log.read_events_by_leaf("t", "b", leaf, damaged[-1].head)
        found = await on.log.read_events_by_leaf("t", "a", leaf, whole[-1].head)
        assert found == whole[1:]
        if is_counted:
            with pytest.raises(Corrupt, match="1 of 6 messages under session"):
                await on.log.read_raw_events_by_leaf("t", leaf)


async def append_exclusions(log: EventLog, session: str) -> list[RecordedEvent]:
    events = await append_one_by_one(log, "t", session, 1)
    for number in range(2, 5):
        drafts = make_drafts([TurnExcluded(turn=1)], number)
        batch = encode_batch("t", session, events[-1].head, drafts)
        events += require_appended(await log.append_batch(batch))
    return events


async def test_memory_log_reports_a_lost_event_of_a_leaf_too() -> None:
    log = MemoryLog()
    events = await append_exclusions(log, "s")
    log.drop_event(events[2].stream_sequence)
    with pytest.raises(StreamHole, match="sequence 3 is missing"):
        await log.read_events_by_leaf("t", "s", TurnExcluded.leaf, events[-1].head)


async def test_memory_log_has_the_same_holes() -> None:
    log = MemoryLog()
    await append_one_by_one(log, "t", "s", LENGTH)
    log.drop_event(4)
    log.drop_event(5)
    places, hole = await read_until_hole(log, "t")
    assert (places, hole.first, hole.last) == ([1, 2, 3], 4, 5)


async def test_lost_blob_raises_corrupt_and_is_a_hole_of_its_stream(tmp_path: Path) -> None:
    await damage_store(tmp_path, lambda stream: stream.flip_byte(1), BLOBS_STREAM)
    async with (
        await NatsServer.start(NatsConfig(data_dir=tmp_path)) as server,
        open_client(server.url, StreamOptions()) as on,
    ):
        with pytest.raises(Corrupt, match="it is gone"):
            await on.blobs.get_blob("t", compute_digest(TEXT))
        with pytest.raises(StreamHole, match="stream BLOBS: sequence 1 is missing"):
            await anext(on.blobs.stream_raw_blobs(0))


async def test_later_bytes_under_a_blob_do_not_replace_it_and_are_reported(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    digest = await jetstream.blobs.put_blob(fresh_tenant, TEXT)
    js = jetstream.connection.nc.jetstream()
    later = await js.publish(build_blob_subject(fresh_tenant, digest), b"another prompt")
    assert await jetstream.blobs.get_blob(fresh_tenant, digest) == TEXT
    alone = compute_digest("never stored")
    first = await js.publish(build_blob_subject(fresh_tenant, alone), b"something else")
    with pytest.raises(AlteredBlob, match="its bytes have changed"):
        await jetstream.blobs.get_blob(fresh_tenant, alone)
    found = [finding async for finding in scan_blobs(jetstream.blobs, fresh_tenant)]
    assert {isinstance(each, AuditFinding) and each.verdict for each in found} == {"integrity"}
    place = f"stream BLOBS: sequence {later.seq}"
    other = f"{place} has other bytes under blob {digest}; the blob itself is unaltered"
    wrong = f"stream BLOBS: sequence {first.seq} does not have the bytes of blob {alone}"
    assert [each.detail for each in found] == [other, wrong]
