from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import cast
from urllib.parse import urlsplit

import pytest
from nats.aio.client import Client

from tests.events.stopped_process import stop_process
from tests.support.servers.fault_proxy import run_fault_proxy
from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.nats_connection import (
    NatsConnection,
    RequestNotSent,
    RequestUnanswered,
    open_connection,
)
from turnlog.services.platform.nats_server import NatsServer


async def test_unreachable_server_raises_unavailable_within_patience() -> None:
    with pytest.raises(Unavailable):
        async with open_connection("nats://127.0.0.1:1", patience=0.3):
            pass


async def test_wrong_password_is_reported_without_the_password(nats_url: str) -> None:
    port = urlsplit(nats_url).port
    with pytest.raises(Unavailable) as raised:
        async with open_connection(f"nats://turnlog:hunter2@127.0.0.1:{port}", patience=0.5):
            pass
    assert "Authorization" in str(raised.value)
    assert "hunter2" not in str(raised.value)


async def test_unsent_and_unanswered_requests_raise_different_errors(
    own_server: NatsServer,
) -> None:
    async with open_connection(own_server.url, patience=0.3) as connection:
        with pytest.raises(RequestNotSent):
            await connection.send_request("nobody.listens")
        async with stop_process(own_server.pid):
            with pytest.raises(RequestUnanswered):
                await connection.send_request("nobody.knows")


async def test_cut_connection_reconnects_and_its_hook_runs(nats_url: str) -> None:
    runs: asyncio.Queue[NatsConnection] = asyncio.Queue()

    async def hook(connection: NatsConnection) -> None:
        await runs.put(connection)
        raise Unavailable("nats", "a hook that fails must not end reconnecting")

    async with (
        run_fault_proxy(nats_url) as proxy,
        open_connection(proxy.url, on_reconnect=hook) as connection,
    ):
        for _ in range(3):
            proxy.cut_connections()
            assert await runs.get() is connection
            with pytest.raises(RequestNotSent):
                await connection.send_request("nobody.listens")


async def test_close_by_the_server_calls_the_hook_and_leaving_does_not(nats_url: str) -> None:
    closed: list[str] = []
    async with open_connection(nats_url, on_closed=lambda: closed.append("left")):
        pass
    assert closed == []
    connection_closed = asyncio.Event()
    async with open_connection(nats_url, on_closed=connection_closed.set) as connection:
        oversize = b"x" * connection.nc.max_payload
        await connection.nc.publish("a", oversize, headers={"over": "the limit"})
        await connection_closed.wait()


async def test_leaving_with_buffered_data_while_the_server_is_down_raises_no_error(
    nats_url: str,
) -> None:
    async with AsyncExitStack() as leaving:
        async with run_fault_proxy(nats_url) as proxy:
            connection = await leaving.enter_async_context(open_connection(proxy.url))
        while connection.nc.is_connected:  # noqa: ASYNC110 - the client has no event for it
            await asyncio.sleep(0.01)
        await connection.nc.publish("nobody.listens", b"buffered")
    assert connection.nc.is_closed


async def test_answers_arrive_in_an_inbox_with_the_given_prefix(nats_url: str) -> None:
    async with open_connection(nats_url, inbox_prefix="_INBOX_gateway") as connection:
        assert connection.nc.new_inbox().startswith("_INBOX_gateway.")
        with pytest.raises(RequestNotSent):
            await connection.send_request("nobody.listens")


async def test_request_cancelled_as_its_answer_arrives_is_cancelled() -> None:
    async def request(*_: object, **__: object) -> None:
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        loop.call_soon(answer.set_result, None)
        loop.call_soon(asking.cancel)
        await asyncio.wait_for(answer, 5)  # as nats-py does

    client = cast("Client", SimpleNamespace(request=request))
    asking = asyncio.create_task(NatsConnection(nc=client, patience=5).send_request("a"))
    await asyncio.wait((asking,))
    assert asking.cancelled()
