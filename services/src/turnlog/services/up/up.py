"""All roles in one process, with a nats-server that fsyncs every acknowledgement, and SQLite.

The roles are the same as in separate processes; here they share only the event loop and the
projection signal. The ready file exists while all of them accept work.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from turnlog.events.errors import Refused
from turnlog.projections.store.reach import Bell
from turnlog.services.gateway import role as gateway
from turnlog.services.projector import role as projector
from turnlog.services.runtime.ending import Ending
from turnlog.services.runtime.nats_config import NatsConfig
from turnlog.services.runtime.nats_server import NatsServer
from turnlog.services.runtime.settings import GatewaySettings, ProjectorSettings, WorkerSettings
from turnlog.services.runtime.tasks import stopped
from turnlog.services.up.settings import UpSettings
from turnlog.services.worker import role as worker


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses of the running services, and their data directory."""

    http: str
    nats: str
    data_dir: Path


@asynccontextmanager
async def up(settings: UpSettings, ending: Ending) -> AsyncGenerator[Addresses]:
    """Run everything while the body runs; finish or hand back running work at the end."""
    host, port = _parted(settings.nats)
    config = NatsConfig(settings.data_dir, host=host, port=port, monitor=True)
    async with await NatsServer.start(config) as server:
        exited = ending.watched(asyncio.create_task(server.exited()), "nats-server")
        try:
            async with _roles(settings, server, ending) as http:
                addresses = Addresses(http, server.url, settings.data_dir)
                with_ready = settings.ready_file or settings.data_dir / "ready.json"
                _write(with_ready, addresses)
                try:
                    yield addresses
                finally:
                    with_ready.unlink(missing_ok=True)
        finally:
            await stopped(exited)


@asynccontextmanager
async def _roles(settings: UpSettings, server: NatsServer, ending: Ending) -> AsyncGenerator[str]:
    places = (server.url, server.monitor_url)
    bell = Bell()
    async with (
        projector.running(settings.for_role(ProjectorSettings, *places), ending, bell),
        gateway.running(settings.for_role(GatewaySettings, *places), ending, bell) as http,
        # Started last and stopped first, so that clients that follow a turn see how it ends.
        worker.running(settings.for_role(WorkerSettings, *places), ending),
    ):
        yield http


def _parted(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise Refused(
            "bad-address", f"{address!r} is not host:port", field="nats", fix="say 127.0.0.1:0"
        )
    return host, int(port)


def _write(file: Path, addresses: Addresses) -> None:
    """Write the file atomically, for its owner only, because it holds the server's password."""
    ready = {
        "http": addresses.http,
        "nats": addresses.nats,
        "data_dir": str(addresses.data_dir.absolute()),
    }
    half = file.with_name(f"{file.name}.{os.getpid()}")
    half.touch(mode=0o600)
    half.write_text(json.dumps(ready))
    half.replace(file)
