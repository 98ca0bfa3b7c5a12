"""A nats-server that is restored from an older copy of its store, as from a backup.

The stream keeps its name and its creation time but is shorter. Later events take the positions of
other events.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from turnlog.events.jetstream.jetstream_client import open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.store.ports import EventLog
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

STORE_FOLDER = "jetstream"


async def copy_store(server: NatsServer, folder: Path, to: Path) -> None:
    """Copy the store of a server in `folder`; the server is killed and restarted for it."""
    await _kill_server(server)
    shutil.copytree(folder / STORE_FOLDER, to / STORE_FOLDER)
    await server.restart()


async def extend_store(copy: Path, grow: Callable[[EventLog], Awaitable[object]]) -> None:
    """Let another history happen on a copy, seen by nobody."""
    async with (
        await NatsServer.start(NatsConfig(data_dir=copy)) as server,
        open_client(server.url, StreamOptions()) as on,
    ):
        await grow(on.log)


async def restore_store(server: NatsServer, folder: Path, copy: Path) -> None:
    """Kill a server and start it on the copy."""
    await _kill_server(server)
    shutil.rmtree(folder / STORE_FOLDER)
    shutil.copytree(copy / STORE_FOLDER, folder / STORE_FOLDER)
    await server.restart()


async def _kill_server(server: NatsServer) -> None:
    os.kill(server.pid, signal.SIGKILL)
    await server.wait_for_exit()
