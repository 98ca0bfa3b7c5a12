"""Cluster behaviour: followers lag, batches are sent twice, leaders die or are cut off."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
import pytest_asyncio
from nats.aio.msg import Msg
from nats.js.api import StoreCompression

from tests.events.log_sessions import append_texts, build_batch, list_sequences
from tests.events.stopped_process import stop_process
from tests.support.servers.nats_cluster import NatsCluster, start_cluster
from turnlog.events.content import compute_digest
from turnlog.events.envelope import ChainHead
from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.jetstream.batch_append import PublishContested, publish_batch
from turnlog.events.jetstream.jetstream_client import JetStreamClient, JetStreamLog, open_client
from turnlog.events.jetstream.nats_connection import (
    NatsConnection,
    RequestUnanswered,
    open_connection,
)
from turnlog.events.jetstream.stream_setup import (
    UNCOMPRESSED_SINCE,
    StreamOptions,
    provision_streams,
)
from turnlog.events.store.ports import BatchAlreadyStored, BatchAppended
from turnlog.events.subjects import (
    BLOBS_STREAM,
    KEYS_STREAM,
    RECORD_STREAMS,
    SESSION_HISTORY,
    SESSIONS_STREAM,
    SNAPSHOTS_STREAM,
)

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
async def test_batch_sent_twice_to_a_cluster_is_found_there(
    replicated: JetStreamClient, fresh_tenant: str, texts: list[str]
) -> None:
    batch = build_batch(fresh_tenant, "s", None, *texts)
    outcome = await replicated.log.append_batch(batch)
    assert isinstance(outcome, BatchAppended)
    assert isinstance(await publish_batch(replicated.connection, batch), PublishContested)
    assert await replicated.log.append_batch(batch) == BatchAlreadyStored(outcome.events)


async def test_readers_close_behind_a_writer_never_see_a_hole(
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


async def test_same_blob_can_be_stored_concurrently(
    replicated: JetStreamClient, fresh_tenant: str
) -> None:
    data = secrets.token_bytes(200)
    stored = await asyncio.gather(
        *(replicated.blobs.put_blob(fresh_tenant, data) for _ in range(30))
    )
    assert set(stored) == {compute_digest(data)}
    assert await replicated.blobs.get_blob(fresh_tenant, stored[0]) == data


@pytest.mark.parametrize("stream", [*RECORD_STREAMS, SNAPSHOTS_STREAM, KEYS_STREAM])
async def test_compression_of_a_replicated_stream_is_turned_off_and_the_time_recorded(
    replicated: JetStreamClient, fresh_tenant: str, stream: str
) -> None:
    js = replicated.connection.nc.jetstream()
    (event,) = await append_texts(replicated.log, fresh_tenant, "s", "text")
    before = (await js.stream_info(stream)).config
    assert before.compression == StoreCompression.NONE
    await js.update_stream(before.evolve(compression=StoreCompression.S2))
    await provision_streams(replicated.connection, StreamOptions(replicas=3))
    after = (await js.stream_info(stream)).config
    assert after.compression == StoreCompression.NONE
    assert datetime.fromisoformat((after.metadata or {})[UNCOMPRESSED_SINCE]) <= datetime.now(UTC)
    assert await replicated.log.read_last_event(fresh_tenant, "s", leader=True) == event


@dataclass(frozen=True, slots=True)
class ReadOnlyConnection(NatsConnection):
    """The connection of a user who may not change streams: such requests get no answer."""

    async def send_request(
        self,
        subject: str,
        payload: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        patience: float | None = None,
    ) -> Msg:
        if subject.startswith("$JS.API.STREAM.UPDATE."):
            raise RequestUnanswered("nats", "no answer")
        plain = NatsConnection(nc=self.nc, patience=self.patience)
        return await plain.send_request(subject, payload, headers, patience=patience)


async def test_replicated_stream_that_stays_compressed_is_refused_with_the_reason(
    replicated: JetStreamClient,
) -> None:
    js = replicated.connection.nc.jetstream()
    config = (await js.stream_info(BLOBS_STREAM)).config
    await js.update_stream(config.evolve(compression=StoreCompression.S2))
    restricted = ReadOnlyConnection(
        nc=replicated.connection.nc, patience=replicated.connection.patience
    )
    with pytest.raises(Corrupt, match="unreadable when it starts after a power loss") as refused:
        await provision_streams(restricted, StreamOptions(replicas=3), patience=0.1)
    assert refused.value.where == f"stream {BLOBS_STREAM}, compression"
    await js.update_stream(config)


async def ask_until_refused(log: JetStreamLog, tenant: str) -> None:
    async with asyncio.timeout(30):
        while True:
            await log.get_identity(tenant)
            await asyncio.sleep(0.2)


async def test_leader_cut_off_from_its_replicas_is_not_trusted(
    cluster: NatsCluster, replicated: JetStreamClient, fresh_tenant: str
) -> None:
    info = await replicated.connection.nc.jetstream().stream_info(SESSIONS_STREAM)
    assert info.cluster
    leader = info.cluster.leader
    assert leader
    others = [node.pid for node in cluster.list_running_nodes() if node.name != leader]
    async with (
        open_connection(cluster.get_node(leader).url) as alone,
        stop_process(others[0]),
        stop_process(others[1]),
    ):
        log = replace(replicated.log, connection=alone)
        # It answers as leader for up to twenty seconds more; its replicas are silent after five.
        with pytest.raises(Unavailable, match="cut off from its replicas"):
            await ask_until_refused(log, fresh_tenant)


@pytest.mark.slow("a nats-server stops or starts")
async def test_writer_and_watcher_survive_loss_of_the_leader(
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
