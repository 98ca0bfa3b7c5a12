"""A process waits for a NATS that is away, and does not pretend to work on one that refuses it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from turnlog.events.async_tasks import run_tasks
from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.nats_connection import open_connection
from turnlog.services.platform.connection_watch import ConnectionWatch
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

HEAL_SECONDS = 1.5


async def start_again(server: NatsServer, config: NatsConfig, *, new_password: bool) -> NatsServer:
    """Start a server at the port of one that has stopped."""
    if new_password:
        config.credentials_file.unlink()
    port = int(server.url.rpartition(":")[2])
    return await NatsServer.start(NatsConfig(data_dir=config.data_dir, port=port))


async def test_outage_is_logged_and_the_watch_waits_for_reconnection(tmp_path: Path) -> None:
    config = NatsConfig(data_dir=tmp_path)
    server = await NatsServer.start(config)
    async with open_connection(server.url) as connection:
        watch = ConnectionWatch(connection, HEAL_SECONDS)
        with capture_logs() as logs:
            async with run_tasks(watch.watch_connection()) as (watching,):
                await server.stop()
                with suppress(TimeoutError):
                    async with asyncio.timeout(2 * HEAL_SECONDS):
                        await asyncio.shield(watching)
                assert not watching.done()
                async with await start_again(server, config, new_password=False):
                    async with asyncio.timeout(30):
                        while "nats-connected" not in [log["event"] for log in logs]:
                            assert not watching.done(), logs
                            await asyncio.sleep(0.05)
                assert not watching.done()
    address = server.url.rpartition("@")[2]
    said = [(log["event"], log["server"]) for log in logs if "server" in log]
    assert said == [("nats-disconnected", address), ("nats-connected", address)]


async def test_connection_refused_by_every_server_raises_unavailable(tmp_path: Path) -> None:
    config = NatsConfig(data_dir=tmp_path)
    server = await NatsServer.start(config)
    async with open_connection(server.url) as connection:
        watch = ConnectionWatch(connection, HEAL_SECONDS)
        await server.stop()
        async with await start_again(server, config, new_password=True):
            with pytest.raises(Unavailable, match=r"no connection for 1.5 s, though .* answers"):
                async with asyncio.timeout(30):
                    await watch.watch_connection()
