"""Readers when the server dies, when events are gone and when bytes are junk."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from tests.events.log_sessions import (
    append_one_by_one,
    append_texts,
    list_sequences,
    read_past,
    take_items,
)
from tests.support.servers.fault_proxy import run_fault_proxy
from tests.support.servers.nats_store_copies import copy_store, extend_store, restore_store
from turnlog.events.content import compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, StreamHole, Unavailable
from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.store.memory_log import MemoryLog
from turnlog.events.subjects import LIBRARY_STREAM, SESSIONS_STREAM
from turnlog.services.platform.nats_server import NatsServer


@pytest_asyncio.fixture
async def damaged(own_server: NatsServer) -> AsyncIterator[JetStreamClient]:
    """A client of a server whose log was recreated without the denial of deletes."""
    async with open_client(own_server.url, StreamOptions()) as there:
        js = there.connection.nc.jetstream()
        config = (await js.stream_info(SESSIONS_STREAM)).config
        await js.delete_stream(SESSIONS_STREAM)
        await js.add_stream(config.evolve(deny_delete=False, deny_purge=False))
        yield there


async def delete_event(jetstream: JetStreamClient, event: RecordedEvent) -> None:
    await jetstream.connection.nc.jetstream().delete_msg(SESSIONS_STREAM, event.stream_sequence)


@pytest.mark.parametrize("length", [4, 30])
async def test_deleted_event_raises_stream_hole_with_its_position(
    damaged: JetStreamClient, fresh_tenant: str, length: int
) -> None:
    log = damaged.log
    events = await append_one_by_one(log, fresh_tenant, "s", length)
    await delete_event(damaged, events[2])
    with pytest.raises(StreamHole) as missing:
        await log.read_range(fresh_tenant, "s", None, events[-1])
    assert missing.value.first == events[2].stream_sequence
    for some in (events[2:3], events):
        with pytest.raises(StreamHole, match=str(events[2].stream_sequence)):
            await log.read_events_at(fresh_tenant, [event.stream_sequence for event in some])
    tail = await log.read_range(fresh_tenant, "s", events[2].head, events[-1])
    assert list(tail) == events[3:]


async def test_memory_log_reports_a_deleted_event_too(fresh_tenant: str) -> None:
    log = MemoryLog()
    events = await append_one_by_one(log, fresh_tenant, "s", 4)
    log.drop_event(2)
    with pytest.raises(Corrupt):
        await log.read_range(fresh_tenant, "s", None, events[-1])
    with pytest.raises(Corrupt):
        await log.read_events_at(fresh_tenant, [2])
    with pytest.raises(StreamHole):
        await read_past(log, fresh_tenant)
    assert [raw.stream_sequence for raw in await read_past(log, fresh_tenant, 2)] == [3, 4]


@pytest.mark.parametrize("length", [4, 30])
async def test_event_that_continues_other_bytes_breaks_the_chain(
    jetstream: JetStreamClient, fresh_tenant: str, length: int
) -> None:
    events = await append_one_by_one(jetstream.log, fresh_tenant, "s", length)
    altered = replace(events[-1].head, hash=compute_digest("what it said before"))
    (last,) = await append_texts(jetstream.log, fresh_tenant, "s", "on", after=altered)
    with pytest.raises(Corrupt) as broken:
        await jetstream.log.read_range(fresh_tenant, "s", None, last)
    assert f"event {length + 1} of session s" in broken.value.where


async def test_head_that_is_not_on_the_log_raises_corrupt(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    events = await append_one_by_one(jetstream.log, fresh_tenant, "s", 3)
    other = await append_one_by_one(jetstream.log, fresh_tenant, "other", 1)
    with pytest.raises(Corrupt):
        await jetstream.log.read_range(fresh_tenant, "s", other[0].head, events[-1])


async def test_bulk_readers_receive_messages_that_are_no_events(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    (event,) = await append_texts(jetstream.log, fresh_tenant, "s", "one")
    js = jetstream.connection.nc.jetstream()
    await js.publish(f"session.{fresh_tenant}.s.turn", b"junk")
    (fine,) = await append_texts(jetstream.log, fresh_tenant, "other", "two")
    raws = await read_past(jetstream.log, fresh_tenant)
    assert [raw.stored for raw in raws] == [event.stored, b"junk", fine.stored]


async def test_readers_survive_server_kills(own_server: NatsServer, fresh_tenant: str) -> None:
    async with (
        open_client(own_server.url, StreamOptions()) as client,
        open_client(own_server.url, StreamOptions()) as reader,
    ):
        log = client.log
        events = await append_one_by_one(log, fresh_tenant, "s", 20)
        async with (
            aclosing(reader.log.watch_session(fresh_tenant, "s")) as watched,
            aclosing(reader.log.stream_raw_events(fresh_tenant, 0, live=True)) as bulks,
        ):
            seen = await take_items(watched, 20)
            followed_places = [raw.stream_sequence for raw in (await take_items(bulks, 1))[0]]
            for _ in range(2):
                os.kill(own_server.pid, signal.SIGKILL)
                await own_server.restart()
                events += await append_one_by_one(
                    log=log, tenant=fresh_tenant, session="s", count=20, after=events[-1].head
                )
                seen += await take_items(watched, 20)
            while len(followed_places) < 60:
                followed_places += [raw.stream_sequence for raw in (await take_items(bulks, 1))[0]]
    assert seen == events
    assert followed_places == [event.stream_sequence for event in events]


async def test_readers_with_a_cut_connection_miss_and_repeat_nothing(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    events = await append_one_by_one(jetstream.log, fresh_tenant, "s", 5)
    async with (
        run_fault_proxy(nats_url) as proxy,
        open_client(proxy.url, StreamOptions()) as reader,
        aclosing(reader.log.watch_session(fresh_tenant, "s")) as watched,
        aclosing(reader.log.stream_raw_events(fresh_tenant, 0, live=True)) as bulks,
    ):
        seen = await take_items(watched, 5)
        places = [raw.stream_sequence for raw in (await take_items(bulks, 1))[0]]
        for _ in range(2):
            proxy.drop_server_data()  # what is sent to the readers now is lost
            events += await append_one_by_one(
                log=jetstream.log, tenant=fresh_tenant, session="s", count=10, after=events[-1].head
            )
            proxy.reset_faults()
            seen += await take_items(watched, 10)
            while len(places) < len(events):
                places += [raw.stream_sequence for raw in (await take_items(bulks, 1))[0]]
    assert seen == events
    assert places == [event.stream_sequence for event in events]


async def test_reader_with_a_closed_connection_can_be_cancelled(
    nats_url: str, fresh_tenant: str
) -> None:
    async with open_client(nats_url, StreamOptions()) as client:
        await append_one_by_one(client.log, fresh_tenant, "s", 1)
        async with aclosing(client.log.stream_raw_events(fresh_tenant, 0, live=True)) as bulks:
            await anext(bulks)
            reading = asyncio.ensure_future(anext(bulks))
            await asyncio.sleep(0)
            await client.connection.nc.close()
            reading.cancel()
            await asyncio.wait((reading,), timeout=5)
            assert reading.cancelled()


async def test_reader_of_a_recreated_log_raises_corrupt(
    own_server: NatsServer, fresh_tenant: str
) -> None:
    async with open_client(own_server.url, StreamOptions()) as client:
        await append_one_by_one(client.log, fresh_tenant, "s", 3)
        before = await client.log.get_identity(fresh_tenant)
        async with aclosing(client.log.stream_raw_events(fresh_tenant, 0, live=True)) as bulks:
            await anext(bulks)
            for stream in (SESSIONS_STREAM, LIBRARY_STREAM):
                await client.connection.nc.jetstream().delete_stream(stream)
            async with open_client(own_server.url, StreamOptions()):
                assert await client.log.get_identity(fresh_tenant) != before
            await append_one_by_one(client.log, fresh_tenant, "s", 9)
            with pytest.raises(Corrupt) as noticed:
                async with asyncio.timeout(60):
                    await anext(bulks)
    assert SESSIONS_STREAM in noticed.value.where


async def test_reader_of_a_rolled_back_log_raises_corrupt(
    own_server: NatsServer, fresh_tenant: str, tmp_path: Path
) -> None:
    folder, copy = tmp_path / "nats", tmp_path / "copy"
    async with open_client(own_server.url, StreamOptions()) as client:
        events = await append_one_by_one(client.log, fresh_tenant, "s", 2)
        await copy_store(own_server, folder, copy)
        async with aclosing(client.log.stream_raw_events(fresh_tenant, 0, live=True)) as bulks:
            await append_one_by_one(
                log=client.log, tenant=fresh_tenant, session="s", count=2, after=events[-1].head
            )
            while (await take_items(bulks, 1))[0][-1].stream_sequence < 4:
                pass
            await restore_store(own_server, folder, copy)
            with pytest.raises(Corrupt, match="it ends at 2 but had reached 4"):
                await take_items(bulks, 1)


async def test_reader_of_a_log_that_grew_after_a_rollback_raises_corrupt(
    own_server: NatsServer, fresh_tenant: str, tmp_path: Path
) -> None:
    folder, copy = tmp_path / "nats", tmp_path / "copy"
    async with open_client(own_server.url, StreamOptions()) as client:
        events = await append_one_by_one(client.log, fresh_tenant, "s", 2)
        await copy_store(own_server, folder, copy)
        await extend_store(copy, lambda log: append_one_by_one(log, fresh_tenant, "new", 5))
        async with aclosing(client.log.stream_raw_events(fresh_tenant, 0, live=True)) as bulks:
            await append_one_by_one(
                log=client.log, tenant=fresh_tenant, session="s", count=2, after=events[-1].head
            )
            while (await take_items(bulks, 1))[0][-1].stream_sequence < 4:
                pass
            await restore_store(own_server, folder, copy)
            with pytest.raises(Corrupt, match="sequence 4: was rolled back"):
                await take_items(bulks, 1)


async def test_reading_a_deleted_stream_raises_unavailable(own_server: NatsServer) -> None:
    async with open_client(own_server.url, StreamOptions()) as client:
        await client.connection.nc.jetstream().delete_stream(SESSIONS_STREAM)
        with pytest.raises(Unavailable):
            await read_past(client.log, None)
        with pytest.raises(Unavailable):
            await client.log.read_last_event("t", "s")


async def test_watcher_finds_events_that_were_not_republished(
    own_server: NatsServer, fresh_tenant: str
) -> None:
    async with open_client(own_server.url, StreamOptions()) as client:
        (first,) = await append_texts(client.log, fresh_tenant, "s", "one")
        async with aclosing(client.log.watch_session(fresh_tenant, "s")) as watched:
            assert await anext(watched) == first
            js = client.connection.nc.jetstream()
            info = await js.stream_info(SESSIONS_STREAM)
            await js.update_stream(info.config.evolve(republish=None))
            (second,) = await append_texts(client.log, fresh_tenant, "s", "two", after=first.head)
            assert await take_items(watched, 1) == [second]


@pytest.mark.slow("a nats-server stops or starts")
async def test_watcher_that_resumes_late_in_a_long_session_reads_few_messages(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    events = await append_one_by_one(jetstream.log, fresh_tenant, "s", 600)
    received = jetstream.connection.nc.stats["in_msgs"]
    async with aclosing(jetstream.log.watch_session(fresh_tenant, "s", 500)) as watched:
        assert await take_items(watched, 100) == events[500:]
    assert jetstream.connection.nc.stats["in_msgs"] - received < 200


async def test_search_for_a_missing_event_ends_with_corrupt(
    damaged: JetStreamClient, fresh_tenant: str
) -> None:
    events = await append_one_by_one(damaged.log, fresh_tenant, "s", 40)
    for event in events[10:30]:
        await delete_event(damaged, event)
    with pytest.raises(Corrupt):
        await damaged.log.find_event(fresh_tenant, "s", 15, events[-1])


async def test_reader_of_the_past_ends_although_events_are_written_meanwhile(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    events = await append_one_by_one(jetstream.log, fresh_tenant, "s", 30)
    async with aclosing(jetstream.log.stream_raw_events(fresh_tenant, 0, live=False)) as bulks:
        places = [raw.stream_sequence for raw in await anext(bulks)]
        await append_one_by_one(
            log=jetstream.log, tenant=fresh_tenant, session="s", count=30, after=events[-1].head
        )
        places += [raw.stream_sequence async for bulk in bulks for raw in bulk]
    assert places == [event.stream_sequence for event in events]
    assert list_sequences(events) == list(range(1, 31))
