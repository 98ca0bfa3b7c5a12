"""The queue of turns: a worker waits at its start until somebody leads it, and measures it."""

from __future__ import annotations

import pytest

from tests.support.processes.measured_figures import MeasuredFigures
from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.jetstream_client import open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.store.memory_log import MemorySnapshotStore
from turnlog.events.subjects import SESSIONS_STREAM, WORKERS_CONSUMER
from turnlog.services.platform.telemetry.reading_gauges import ReadingGauge
from turnlog.services.worker import queue_keeper
from turnlog.services.worker.queue_keeper import DEPTH_METRIC, QueueKeeper


class LeaderlessSnapshotStore(MemorySnapshotStore):
    """Snapshots of a stream whose replicas have elected a leader after some reads."""

    def __init__(self, silent_reads: int) -> None:
        super().__init__()
        self.silent_reads = silent_reads

    async def get_snapshot(
        self, tenant: str, session: str, interval: int | None = None
    ) -> bytes | None:
        self.silent_reads -= 1
        if self.silent_reads >= 0:
            raise Unavailable("nats", "$JS.API.STREAM.MSG.GET.SNAPSHOTS: TimeoutError")
        return await super().get_snapshot(tenant, session, interval)


@pytest.mark.asyncio
async def test_start_waits_for_a_stream_without_leader(nats_url: str) -> None:
    async with open_client(nats_url, StreamOptions()) as client:
        identity = await client.log.get_identity("default")
        queue = QueueKeeper(
            connection=client.connection,
            identity=identity,
            snapshots=LeaderlessSnapshotStore(3),
            redelivery_wait=30,
        )
        await queue.wait_for_consumer()
        assert await queue.fetch_settled_sequence() == 0


@pytest.mark.asyncio
async def test_start_fails_when_no_leader_is_elected_in_time(
    nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_keeper, "START_SECONDS", 0.1)
    async with open_client(nats_url, StreamOptions()) as client:
        identity = await client.log.get_identity("default")
        store = LeaderlessSnapshotStore(1_000_000)
        queue = QueueKeeper(
            connection=client.connection, identity=identity, snapshots=store, redelivery_wait=30
        )
        with pytest.raises(Unavailable, match="SNAPSHOTS: TimeoutError"):
            await queue.wait_for_consumer()


@pytest.mark.asyncio
async def test_turns_that_nobody_took_and_those_in_hand_are_measured(nats_url: str) -> None:
    measured, label = MeasuredFigures(), "turnlog.queue.state"
    gauge = ReadingGauge(DEPTH_METRIC, label, unit="{turn}", description="", meter=measured.meter)
    async with open_client(nats_url, StreamOptions()) as client:
        queue = QueueKeeper(
            connection=client.connection,
            identity=await client.log.get_identity("default"),
            snapshots=MemorySnapshotStore(),
            redelivery_wait=30,
            depth=gauge,
        )
        await queue.ensure_consumer()
        # The server is shared with tests that left turns.
        old = measured.read_values(DEPTH_METRIC, label)
        stream = client.connection.nc.jetstream()
        for number in range(3):
            await stream.publish(f"session.default.s{number}.turn.submitted", b"{}")
        worker = await stream.pull_subscribe_bind(WORKERS_CONSUMER, SESSIONS_STREAM)
        (taken,) = await worker.fetch(1)
        await queue.ensure_consumer()
        expected = {"undelivered": old["undelivered"] + 2, "delivered": old["delivered"] + 1}
        assert measured.read_values(DEPTH_METRIC, label) == expected
        await taken.ack_sync()
        await queue.ensure_consumer()
        assert measured.read_values(DEPTH_METRIC, label) == expected | {
            "delivered": old["delivered"]
        }
