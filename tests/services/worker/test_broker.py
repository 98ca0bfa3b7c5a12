"""The slots of a worker end with its connection, and none of them holds the event loop."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from nats import errors
from nats.js.client import JetStreamContext

from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.jetstream.work_queue import WorkQueueOptions, ensure_work_queue
from turnlog.services.worker.turn_runner import TurnRunner
from turnlog.services.worker.turn_subscription import TurnBroker, build_broker, run_broker

# An event loop that is held cannot end a test; the signal of the timeout can.
pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(30, method="signal")]

NO_TURNS = cast("TurnRunner", cast("Any", None))
"""What runs turns, in tests in which there are none."""


async def build_slots(client: JetStreamClient) -> TurnBroker:
    await ensure_work_queue(client.connection, WorkQueueOptions(ack_wait=30, max_ack_pending=100))
    return build_broker(client.connection, slots=2, grace=1, answering=NO_TURNS)


async def test_failed_start_of_a_slot_stops_the_others(
    nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe, subscribed = JetStreamContext.pull_subscribe, list[str]()

    async def subscribe_once(self: JetStreamContext, subject: str, **options: object) -> object:
        if subscribed:
            raise errors.NoRespondersError
        subscribed.append(subject)
        return await subscribe(self, subject, **cast("Any", options))

    monkeypatch.setattr(JetStreamContext, "pull_subscribe", subscribe_once)
    async with open_client(nats_url, StreamOptions()) as client:
        broker = await build_slots(client)
        with pytest.raises(Unavailable, match="NoRespondersError"):
            async with run_broker(broker, NO_TURNS, 1):
                pytest.fail("it started")
    with pytest.raises(Unavailable, match="2 of 2 slots take no turn"):
        await broker.require_listening()


async def test_permanently_closed_connection_leaves_the_event_loop_free(nats_url: str) -> None:
    async with open_client(nats_url, StreamOptions()) as client:
        broker = await build_slots(client)
        async with run_broker(broker, NO_TURNS, 1):
            await broker.require_listening()
            await client.connection.nc.close()
            # The slots notice it meanwhile, and each asks for a turn again.
            async with asyncio.timeout(5):
                await asyncio.sleep(0.2)
