"""A server that vanishes without closing its connections costs seconds, not minutes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from nats import errors

from tests.support.servers.fault_proxy import FaultProxy, run_fault_proxy
from turnlog.events.async_tasks import run_tasks
from turnlog.events.jetstream.nats_connection import (
    NatsConnection,
    find_answering_server,
    open_connection,
)

NOTICED_WITHIN = 15.0
"""Seconds that a vanished host may cost; nats-py by itself takes five minutes."""


async def wait_for_reconnect(connection: NatsConnection) -> None:
    reconnected = asyncio.Event()
    with connection.watch_reconnects(reconnected.set):
        async with asyncio.timeout(NOTICED_WITHIN):
            await reconnected.wait()


async def move_to_proxy(connection: NatsConnection, proxy: FaultProxy) -> None:
    """Reconnect until the connection goes through the proxy."""
    while connection.server != urlsplit(proxy.url).netloc.rpartition("@")[2]:
        await connection.nc.force_reconnect()
        await wait_for_reconnect(connection)


async def publish_much(connection: NatsConnection) -> None:
    while True:
        with suppress(errors.Error):
            await connection.nc.publish("nobody.listens", b"x" * 20_000)
        await asyncio.sleep(0.001)


@pytest.mark.slow("a nats-server stops or starts")
async def test_idle_and_busy_connections_leave_a_vanished_server(nats_url: str) -> None:
    # Twelve seconds, because that is what is shown.
    async with (
        run_fault_proxy(nats_url) as proxy,
        open_connection(f"{proxy.url},{nats_url}") as idle,
        open_connection(f"{proxy.url},{nats_url}") as busy,
    ):
        await asyncio.gather(move_to_proxy(idle, proxy), move_to_proxy(busy, proxy))
        proxy.swallow_data()
        async with run_tasks(publish_much(busy)):
            await asyncio.gather(wait_for_reconnect(idle), wait_for_reconnect(busy))
        there = urlsplit(nats_url).netloc.rpartition("@")[2]
        assert (idle.server, busy.server) == (there, there)
        proxy.reset_faults()


async def test_server_that_accepts_connections_but_sends_nothing_is_not_answering(
    nats_url: str,
) -> None:
    async with run_fault_proxy(nats_url) as proxy, open_connection(proxy.url) as connection:
        connection.nc.set_server_pool([proxy.url])
        assert await find_answering_server(connection) is not None
        proxy.drop_server_data()
        assert await find_answering_server(connection) is None
        proxy.reset_faults()
