from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import nats
import pytest
from nats.aio.client import Client

from turnlog.events.errors import Refused, Unavailable
from turnlog.services.platform.nats_server import (
    NatsConfig,
    NatsRun,
    NatsServer,
    find_server_binary,
    stop_run,
)


@asynccontextmanager
async def connect_client(server: NatsServer) -> AsyncGenerator[Client]:
    client = await nats.connect(server.url, allow_reconnect=False)
    try:
        yield client
    finally:
        await client.close()


async def test_client_connects_through_the_server_url(tmp_path: Path) -> None:
    async with (
        await NatsServer.start(NatsConfig(data_dir=tmp_path)) as server,
        connect_client(server) as client,
    ):
        account = await client.jetstream().account_info()
        assert account.streams == 0
        assert client.max_payload == 4 * 1024 * 1024


async def test_client_without_the_password_is_rejected(tmp_path: Path) -> None:
    async with await NatsServer.start(NatsConfig(data_dir=tmp_path)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", parse_port(server.url))
        writer.write(b"CONNECT {}\r\nPING\r\n")
        assert b"Authorization Violation" in await reader.read()
        writer.close()


def parse_port(url: str) -> int:
    return urlsplit(url).port or 0


@pytest.mark.promise("P1", "P2")
async def test_every_acknowledgement_waits_for_fsync(tmp_path: Path) -> None:
    async with await NatsServer.start(NatsConfig(data_dir=tmp_path, monitor=True)) as server:
        assert server.monitor_url is not None
        async with httpx.AsyncClient() as browser:
            page = await browser.get(f"{server.monitor_url}/jsz?config=true")
        assert page.json()["config"]["sync_always"] is True


async def test_monitoring_is_off_by_default(tmp_path: Path) -> None:
    async with await NatsServer.start(NatsConfig(data_dir=tmp_path)) as server:
        assert server.monitor_url is None


async def test_a_restart_keeps_url_and_data(tmp_path: Path) -> None:
    async with await NatsServer.start(NatsConfig(data_dir=tmp_path)) as server:
        url, pid = server.url, server.pid
        await store_message(server)
        await server.restart()
        assert (server.url, server.pid == pid) == (url, False)
        assert await count_messages(server) == 1


async def test_killed_server_restarts_with_its_data(tmp_path: Path) -> None:
    async with await NatsServer.start(NatsConfig(data_dir=tmp_path)) as server:
        await store_message(server)
        os.kill(server.pid, signal.SIGKILL)
        assert await server.wait_for_exit() == -signal.SIGKILL
        await server.restart()
        assert await count_messages(server) == 1


async def store_message(server: NatsServer) -> None:
    async with connect_client(server) as client:
        await client.jetstream().add_stream(name="KEPT", subjects=["kept"])
        await client.jetstream().publish("kept", b"1")


async def count_messages(server: NatsServer) -> int:
    async with connect_client(server) as client:
        return (await client.jetstream().stream_info("KEPT")).state.messages


async def test_server_password_is_stable_and_owner_readable_only(tmp_path: Path) -> None:
    config = NatsConfig(data_dir=tmp_path)
    async with await NatsServer.start(config) as first:
        password = first.url.split("@")[0]
    async with await NatsServer.start(config) as second:
        assert second.url.split("@")[0] == password
    for file in (config.credentials_file, config.config_file):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_stopped_server_process_has_exited(tmp_path: Path) -> None:
    server = await NatsServer.start(NatsConfig(data_dir=tmp_path))
    await server.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


async def test_stopping_a_process_logs_no_unknown_child_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where two signals follow at once, the second one may find what the first one ended."""
    pipe, start = asyncio.subprocess.PIPE, asyncio.create_subprocess_exec
    for _ in range(60):
        server, watcher = await start("sleep", "60"), await start("sh", "-c", "read _", stdin=pipe)
        await stop_run(NatsRun(server, watcher, 0, None), timeout=30)
        assert (server.returncode, watcher.returncode) == (-signal.SIGTERM, -signal.SIGKILL)
    assert caplog.messages == []


async def test_a_server_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    server = await NatsServer.start(NatsConfig(data_dir=tmp_path))
    os.kill(server.pid, signal.SIGSTOP)
    await server.stop(timeout=0.1)
    assert await server.wait_for_exit() == -signal.SIGKILL


async def test_a_second_server_on_the_same_data_is_refused(tmp_path: Path) -> None:
    async with await NatsServer.start(NatsConfig(data_dir=tmp_path)) as first:
        with pytest.raises(Refused, match="data-dir-in-use"):
            await NatsServer.start(NatsConfig(data_dir=tmp_path))
        async with connect_client(first) as client:
            assert client.is_connected


ORPHAN = """
import asyncio, os, signal, sys
from pathlib import Path
from turnlog.services.platform.nats_server import NatsConfig
from turnlog.services.platform.nats_server import NatsServer

async def main():
    server = await NatsServer.start(NatsConfig(data_dir=Path(sys.argv[1])))
    print(server.url, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def start_and_kill_parent(data_dir: Path) -> int:
    """Start a server in a process that is killed at once; return the server's port."""
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ORPHAN, str(data_dir), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    url = (await parent.stdout.readline()).decode().strip()
    assert await parent.wait() == -signal.SIGKILL
    return parse_port(url)


async def test_server_exits_after_its_parent_was_killed(tmp_path: Path) -> None:
    port = await start_and_kill_parent(tmp_path)
    async with asyncio.timeout(30):
        while await is_listening(port):  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.02)


async def is_listening(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True


async def test_server_of_a_killed_parent_is_stopped_before_the_next_start(tmp_path: Path) -> None:
    port = await start_and_kill_parent(tmp_path)
    async with await NatsServer.start(NatsConfig(data_dir=tmp_path)):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


@pytest.mark.parametrize("text", ["", "turnlog:", "another:word", "\xff"])
async def test_credentials_file_without_a_password_is_refused_with_a_fix(
    tmp_path: Path, text: str
) -> None:
    file = NatsConfig(data_dir=tmp_path).credentials_file
    file.write_text(text, encoding="latin-1")
    with pytest.raises(Refused, match=f"bad-credentials: {file}") as refused:
        await NatsServer.start(NatsConfig(data_dir=tmp_path))
    assert "delete it" in refused.value.fix
    file.unlink()
    async with (
        await NatsServer.start(NatsConfig(data_dir=tmp_path)) as server,
        connect_client(server),
    ):
        pass


async def test_nats_port_in_use_is_reported_by_number(tmp_path: Path) -> None:
    async with await NatsServer.start(NatsConfig(data_dir=tmp_path / "first")) as first:
        port = parse_port(first.url)
        with pytest.raises(Unavailable, match=f"ended immediately: .*{port}"):
            await NatsServer.start(NatsConfig(data_dir=tmp_path / "second", port=port))


async def test_listening_beyond_loopback_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="beyond-loopback"):
        await NatsServer.start(NatsConfig(data_dir=tmp_path, host="0.0.0.0"))  # noqa: S104


async def test_missing_server_binary_is_reported_with_a_fix(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    with pytest.raises(Unavailable, match=f"{absent}: run `make install`"):
        await NatsServer.start(NatsConfig(data_dir=tmp_path), binary=absent)


def test_missing_server_package_is_reported_with_a_fix() -> None:
    with pytest.raises(Unavailable, match="no-such-package is not installed: run `make install`"):
        find_server_binary("no-such-package")
