"""Two tenants at one queue of a real server: the order in which their turns reach the model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio

from tests.services.gateway.gateway_service import (
    RunningGateway,
    build_worker,
    open_backend,
    start_service,
)
from tests.services.gateway.keys.key_gateway import (
    create_key,
    open_session,
    send,
    start_key_gateway,
)
from tests.support.sessions.flat_pricing import create_flat_pricing
from tests.support.sessions.puppet_model import PuppetModel
from turnlog.events.jetstream.jetstream_client import open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.jetstream.work_queue import WorkQueueOptions, ensure_work_queue
from turnlog.services.platform.nats_server import NatsConfig, NatsServer
from turnlog.services.worker.turn_subscription import build_broker, run_broker

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.slow("a server of its own, and dozens of sessions"),
]

MANY = 30


@dataclass(repr=False)
class Queue:
    """The queue of a server that no other test uses, in front of a gateway that asks for keys."""

    url: str
    gateway: RunningGateway
    keys: dict[str, str]

    async def submit_turns(self, tenant: str, number: int) -> Sequence[str]:
        """Submit a turn to each of so many sessions, in order; return their paths."""
        paths = list[str]()
        for _ in range(number):
            key = self.keys[tenant]
            path = f"/v1/sessions/{await open_session(self.gateway, key)}"
            body = {"text": f"a turn of {tenant}"}
            answer = await send(self.gateway, key, "POST", f"{path}/turns", json=body)
            assert answer.status_code == 202, answer.text
            paths.append(path)
        return paths

    async def wait_for_end(self, tenant: str, path: str) -> None:
        """Wait until the turn of a session is answered."""
        path = f"{path}/turns/1/stream"
        answer = await send(self.gateway, self.keys[tenant], "GET", path, timeout=60)
        assert "event: done" in answer.text, answer.text

    @asynccontextmanager
    async def run_worker(self, name: str, slots: int) -> AsyncGenerator[PuppetModel]:
        """Run a worker of its own connection; yields the model that it calls."""
        stand, model = self.gateway, PuppetModel()
        async with open_client(self.url, StreamOptions()) as client:
            worker = build_worker(client, stand.store, model, create_flat_pricing("puppet-1"))
            options = WorkQueueOptions(ack_wait=30, max_ack_pending=1_000)
            await ensure_work_queue(client.connection, options)

            async def list_tenants() -> Sequence[str]:
                return tuple(self.keys)

            broker = build_broker(
                connection=client.connection,
                slots=slots,
                grace=1,
                answering=replace(worker, name=name),
                list_tenants=list_tenants,
            )
            async with run_broker(broker, worker, 1):
                yield model


@pytest_asyncio.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with AsyncExitStack() as stack:
        server = await NatsServer.start(NatsConfig(data_dir=tmp_path / "nats"))
        await stack.enter_async_context(server)
        backend = await stack.enter_async_context(open_backend(server.url))
        stand = await stack.enter_async_context(
            start_service(backend, "travel", tmp_path, working=False)
        )
        gateway = await stack.enter_async_context(start_key_gateway(stand))
        keys = {
            name: await create_key(gateway, "app", "caller", tenant=name)
            for name in ("travel", "review")
        }
        yield Queue(server.url, gateway, keys)


def list_tenants_of_calls(*models: PuppetModel) -> list[str]:
    """Return whose turn each call of the models was for, in order."""
    texts = (str(each.messages[-1]) for model in models for each in model.requests)
    return ["review" if "review" in each else "travel" for each in texts]


async def test_a_first_turn_passes_the_queue_of_another_tenant(queue: Queue) -> None:
    travel = await queue.submit_turns("travel", MANY)
    (review,) = await queue.submit_turns("review", 1)
    async with queue.run_worker("w1", slots=2) as model:
        await queue.wait_for_end("review", review)
        for path in travel:
            await queue.wait_for_end("travel", path)
    calls = list_tenants_of_calls(model)
    assert calls.index("review") < 4
    assert (calls.count("travel"), calls.count("review")) == (MANY, 1)


async def test_two_workers_share_their_slots_and_call_each_turn_once(queue: Queue) -> None:
    travel = await queue.submit_turns("travel", MANY)
    review = await queue.submit_turns("review", 10)
    async with queue.run_worker("w1", slots=2) as one, queue.run_worker("w2", slots=2) as two:
        for path in review:
            await queue.wait_for_end("review", path)
        begun = list_tenants_of_calls(one, two).count("travel")
        for path in travel:
            await queue.wait_for_end("travel", path)
    calls = list_tenants_of_calls(one, two)
    assert (calls.count("travel"), calls.count("review")) == (MANY, 10)
    assert begun <= 20


async def test_a_worker_that_starts_again_is_as_fair(queue: Queue) -> None:
    travel = await queue.submit_turns("travel", MANY)
    async with queue.run_worker("w1", slots=2):
        await queue.wait_for_end("travel", travel[2])
    (review,) = await queue.submit_turns("review", 1)
    async with queue.run_worker("w2", slots=2) as after:
        await queue.wait_for_end("review", review)
        begun = list_tenants_of_calls(after)
    assert begun.index("review") < 4
