"""Cluster behaviour: followers lag, batches are sent twice, leaders die."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest
import pytest_asyncio

from tests.events.log_sessions import append_texts, build_batch, list_sequences
from tests.support.servers.nats_cluster import NatsCluster, start_cluster
from turnlog.events.envelope import ChainHead
from turnlog.events.jetstream.batch_append import PublishContested, publish_batch
from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.store.ports import BatchAlreadyStored, BatchAppended
from turnlog.events.subjects import SESSION_HISTORY, SESSIONS_STREAM

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[NatsCluster]:
    async with start_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replicated(cluster: NatsCluster) -> AsyncGenerator[JetStreamClient]:
    async with open_client(cluster.url, StreamOptions(replicas=3)) as jetstream:
        yield replace(jetstream, log=replace(jetstream.log, patience=60))


@pytest.mark.parametrize("texts", [["one"], ["one", "two", "three"]])
async def test_a_batch_sent_twice_to_a_cluster_is_found_there(
    replicated: JetStreamClient, fresh_tenant: str, texts: list[str]
) -> None:
    batch = build_batch(fresh_tenant, "s", None, *texts)
    outcome = await replicated.log.append_batch(batch)
    assert isinstance(outcome, BatchAppended)
    assert isinstance(await publish_batch(replicated.connection, batch), PublishContested)
    assert await replicated.log.append_batch(batch) == BatchAlreadyStored(outcome.events)


async def test_readers_right_behind_a_writer_never_see_a_hole(
    replicated: JetStreamClient, fresh_tenant: str
) -> None:
    head: ChainHead | None = None
    for sequence in range(1, 101):
        (event,) = await append_texts(replicated.log, fresh_tenant, "s", "text", after=head)
        head = event.head
        assert await replicated.log.read_last_event(fresh_tenant, "s", leader=True) == event
        assert list(await replicated.log.read_events_at(fresh_tenant, [event.stream_sequence])) == [
            event
        ]
        if sequence % 20 == 0:
            events = await replicated.log.read_range(fresh_tenant, "s", None, event)
            assert list_sequences(events) == list(range(1, sequence + 1))


async def test_a_writer_and_a_watcher_outlive_the_leader(
    cluster: NatsCluster, replicated: JetStreamClient, fresh_tenant: str
) -> None:
    sent: list[bytes] = []

    async def write(head: ChainHead | None, upto: int) -> ChainHead | None:
        while len(sent) < upto:
            batch = build_batch(fresh_tenant, "s", head, *["text"] * (1 + len(sent) % 2))
            outcome = await replicated.log.append_batch(batch)
            assert isinstance(outcome, BatchAppended | BatchAlreadyStored), outcome
            head = outcome.events[-1].head
            sent.extend(message.payload for message in batch.messages)
        return head

    async def watch(upto: int) -> list[bytes]:
        seen: list[bytes] = []
        async for event in replicated.log.watch_session(fresh_tenant, "s"):
            seen.append(event.stored)
            if len(seen) >= upto:
                break
        return seen

    watching = asyncio.create_task(watch(150))
    writing = asyncio.create_task(write(await write(None, 50), 150))
    info = await replicated.connection.nc.jetstream().stream_info(
        SESSIONS_STREAM, subjects_filter=SESSION_HISTORY.build_filter(fresh_tenant, "s")
    )
    assert info.cluster
    assert info.cluster.leader
    await cluster.kill_server(info.cluster.leader)
    await writing
    assert (await watching)[:150] == sent[:150]
    last = await replicated.log.read_last_event(fresh_tenant, "s", leader=True)
    assert last
    events = await replicated.log.read_range(fresh_tenant, "s", None, last)
    assert [event.stored for event in events] == sent
