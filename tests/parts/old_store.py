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

from turnlog.events.log.ports import Log
from turnlog.events.nats.layout import Terms
from turnlog.events.nats.opening import opened
from turnlog.services.runtime.nats_config import NatsConfig
from turnlog.services.runtime.nats_server import NatsServer

STORE = "jetstream"


async def copied(server: NatsServer, folder: Path, to: Path) -> None:
    """Copy the store of a server in `folder`; the server is killed and restarted for it."""
    await _killed(server)
    shutil.copytree(folder / STORE, to / STORE)
    await server.restart()


async def grown(copy: Path, grow: Callable[[Log], Awaitable[object]]) -> None:
    """Append another history to a copy, on a server of its own."""
    async with (
        await NatsServer.start(NatsConfig(copy)) as server,
        opened(server.url, Terms()) as on,
    ):
        await grow(on.log)


async def put_back(server: NatsServer, folder: Path, copy: Path) -> None:
    """Kill a server and start it on the copy."""
    await _killed(server)
    shutil.rmtree(folder / STORE)
    shutil.copytree(copy / STORE, folder / STORE)
    await server.restart()


async def _killed(server: NatsServer) -> None:
    os.kill(server.pid, signal.SIGKILL)
    await server.exited()
