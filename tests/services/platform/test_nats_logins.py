"""What the login of consumers may do on NATS, and what it may not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio
from nats.aio.client import Client
from nats.js.api import ConsumerConfig
from nats.js.errors import BadRequestError

from tests.deploy.compose_file import ROOT
from tests.events.log_sessions import append_texts, take_items
from turnlog.events.jetstream.event_consumer import subscribe_events
from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.jetstream.work_queue import WorkQueueOptions, ensure_work_queue
from turnlog.events.store.ports import TurnTokenEvent
from turnlog.events.tokens import Token
from turnlog.services.platform.nats_logins import render_users
from turnlog.services.platform.nats_permissions import STREAM_SUBJECTS
from turnlog.services.platform.nats_server import NatsConfig, NatsServer


@dataclass(repr=False)
class ConsumerLogin:
    """A client with the login of consumers, beside the services' own client."""

    url: str
    client: Client
    services: JetStreamClient
    refusals: asyncio.Queue[str] = field(default_factory=asyncio.Queue[str])
    """What the server refused."""

    async def note_refusal(self, fault: Exception) -> None:
        self.refusals.put_nowait(str(fault))

    async def take_refusal(self) -> str:
        return await asyncio.wait_for(self.refusals.get(), 10)


@pytest_asyncio.fixture
async def login(tmp_path: Path) -> AsyncIterator[ConsumerLogin]:
    async with (
        await NatsServer.start(NatsConfig(data_dir=tmp_path)) as server,
        open_client(server.url, StreamOptions()) as services,
    ):
        await ensure_work_queue(services.connection, WorkQueueOptions(30, 10))
        made = ConsumerLogin(server.consumer_url, Client(), services)
        await made.client.connect(server.consumer_url, error_cb=made.note_refusal)
        yield made
        await made.client.close()


@pytest.mark.promise("P13")
@pytest.mark.parametrize(
    "subject",
    [
        "session.default.s.turn",
        "library.default.segments.edited",
        "blob.default.sha256-00",
        "snapshot.default.s",
        "key.default.s",
        "tokens.default.s.1",
        "live.session.default.s.turn",
        "quota.default.user.day",
        "$JS.API.STREAM.PURGE.SESSIONS",
        "$JS.API.STREAM.DELETE.SESSIONS",
        "$JS.API.STREAM.UPDATE.SESSIONS",
        "$JS.API.STREAM.MSG.DELETE.SESSIONS",
        "$JS.API.STREAM.MSG.GET.BLOBS",
        "$JS.API.DIRECT.GET.SNAPSHOTS",
        "$JS.API.CONSUMER.CREATE.BLOBS",
        "$JS.API.CONSUMER.CREATE.SESSIONS.workers",
        "$JS.API.CONSUMER.CREATE.SESSIONS.workers.session.>",
        "$JS.API.CONSUMER.DURABLE.CREATE.SESSIONS.workers",
        "$JS.API.CONSUMER.DELETE.SESSIONS.workers",
        "$JS.API.CONSUMER.MSG.NEXT.SESSIONS.workers",
        "$JS.ACK.SESSIONS.workers.1.1.1.1.0",
        "_TURNLOG.x",
    ],
)
async def test_consumer_login_cannot_publish(login: ConsumerLogin, subject: str) -> None:
    await login.client.publish(subject, b"{}")
    # The client repeats the server's message in small letters.
    refusal = await login.take_refusal()
    assert f'permissions violation for publish to "{subject.lower()}"' in refusal
    for stream in STREAM_SUBJECTS:
        state = (await login.services.connection.nc.jetstream().stream_info(stream)).state
        assert state.messages == 0


@pytest.mark.parametrize("subject", ["_TURNLOG.>", "session.>", "blob.>", "$JS.API.>", ">"])
async def test_consumer_login_sees_nothing_but_its_answers_and_what_is_republished(
    login: ConsumerLogin, subject: str
) -> None:
    await login.client.subscribe(subject)
    assert "permissions violation for subscription" in await login.take_refusal()


async def test_consumer_that_delivers_to_the_subject_of_a_stream_stores_nothing(
    login: ConsumerLogin,
) -> None:
    await append_texts(login.services.log, "default", "s", "one")
    js = login.client.jetstream()
    for number, subject in enumerate(
        ("library.default.segments.edited", "blob.default.x", "$JS.API.STREAM.DELETE.LIBRARY")
    ):
        await js.add_consumer(
            "SESSIONS",
            ConsumerConfig(
                name=f"c{number}",
                deliver_subject=subject,
                filter_subject="session.>",
                headers_only=True,
            ),
        )
    with pytest.raises(BadRequestError, match="forms a cycle"):
        await js.add_consumer(
            "SESSIONS", ConsumerConfig(name="c", deliver_subject="session.default.s.turn")
        )
    # What a consumer is to deliver is known to be delivered once a later one has its message.
    ordered = await js.subscribe("session.>", ordered_consumer=True)
    await ordered.next_msg(timeout=10)
    services = login.services.connection.nc.jetstream()
    for stream in ("LIBRARY", "BLOBS"):
        assert (await services.stream_info(stream)).state.messages == 0


async def test_consumer_login_reads_in_every_way_of_the_documents(login: ConsumerLogin) -> None:
    log, js = login.services.log, login.client.jetstream()
    live = await login.client.subscribe("live.>")
    await login.client.flush()
    (event,) = await append_texts(log, "default", "s", "one")
    assert (await live.next_msg(timeout=10)).data == event.stored
    ordered = await js.subscribe("session.>", ordered_consumer=True)
    assert (await ordered.next_msg(timeout=10)).data == event.stored
    pulled = await js.pull_subscribe("session.*.*.turn.>", durable="mine", stream="SESSIONS")
    (message,) = await pulled.fetch(1, timeout=10)
    await message.ack_sync()
    assert (await js.consumer_info("SESSIONS", "mine")).num_ack_pending == 0
    await js.delete_consumer("SESSIONS", "mine")
    assert login.refusals.empty()


async def test_typed_consumer_reads_events_and_tokens_with_the_login_of_consumers(
    login: ConsumerLogin,
) -> None:
    services = login.services
    (opened,) = await append_texts(services.log, "default", "s", "one")
    token = Token(call="1.1", attempt=1, offset=0, text="Hel")
    await services.tokens.publish_and_confirm("default", "s", 1, token)
    async with subscribe_events(login.url) as all_events:
        assert await anext(all_events) == opened
    async with subscribe_events(login.url, session="s", tokens=True) as events:
        assert await anext(events) == opened
        assert await anext(events) == TurnTokenEvent(1, token)
    async with aclosing(services.log.watch_session("default", "s")) as watched:
        assert await take_items(watched, 1) == [opened]


def test_deployed_servers_have_the_permissions_of_the_embedded_one() -> None:
    deployed = (ROOT / "deploy/nats/users.conf").read_text()
    assert deployed == render_users(), "turnlog keys nats > deploy/nats/users.conf"
