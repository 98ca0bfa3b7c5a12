"""All roles in one process, with a nats-server that fsyncs every acknowledgement, and SQLite.

The roles are the same as in separate processes; here they share only the event loop and the
projection signal. The ready file exists while all of them accept work.

nats-server fixes its limit when it starts, at three quarters of the free disk, and a stream that
met a full disk takes no writes until the server is restarted. So the server is restarted when it
refuses writes although the disk has space again, and also when one of its streams hangs, which
its health page shows by not answering; its clients reconnect.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import structlog
from pydantic import BaseModel, ValidationError

from turnlog.events.errors import Refused, Unavailable
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.services.caches.session_snapshots import apply_directory_key
from turnlog.services.gateway import main as gateway
from turnlog.services.integrity.snapshot_readability import find_snapshot_fault
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.platform.durability import fetch_monitor_page, fetch_store_fault
from turnlog.services.platform.nats_server import (
    NatsConfig,
    NatsServer,
    choose_address,
    keep_address,
)
from turnlog.services.platform.process_settings import (
    AllInOneSettings,
    GatewaySettings,
    ProjectorSettings,
    WorkerSettings,
)
from turnlog.services.platform.shutdown import Shutdown
from turnlog.services.process_components import connect_client
from turnlog.services.projector import main as projector
from turnlog.services.worker import worker_process as worker

_log = structlog.get_logger("turnlog.process")


@dataclass(frozen=True, slots=True)
class ServiceAddresses:
    """Addresses of the running services, and their data directory."""

    http: str
    nats: str
    data_dir: Path


@asynccontextmanager
async def run_all_in_one(
    settings: AllInOneSettings, shutdown: Shutdown
) -> AsyncGenerator[ServiceAddresses]:
    """Run everything while the body runs; finish or hand back running work at the end."""
    host, port = _parse_address(choose_address(settings.data_dir, settings.nats))
    config = NatsConfig(settings.data_dir, host=host, port=port, monitor=True)
    async with await NatsServer.start(config) as server:
        keep_address(settings.data_dir, settings.nats)
        if fault := await find_snapshot_fault(server.url):
            await server.restart_without_snapshots(fault)
        settings = apply_directory_key(settings, creating=True)
        restarting = _restart_when_stuck(server, settings.data_dir)
        async with (
            shutdown.run_part("nats-server", server.wait_for_exit()),
            shutdown.run_part("nats-server", restarting),
            _run_roles(settings, server, shutdown) as http,
        ):
            addresses = ServiceAddresses(http, server.url, settings.data_dir)
            # The one in the data directory is where commands look for a running service.
            ready_files = {settings.data_dir / "ready.json"}
            if settings.ready_file is not None:
                ready_files.add(settings.ready_file)
            for file in ready_files:
                _write_ready_file(file, addresses)
            try:
                yield addresses
            finally:
                for file in ready_files:
                    file.unlink(missing_ok=True)


@asynccontextmanager
async def _run_roles(
    settings: AllInOneSettings, server: NatsServer, shutdown: Shutdown
) -> AsyncGenerator[str]:
    places = (server.url, server.monitor_url)
    projection_signal = ProjectionSignal()
    front = settings.build_role_settings(GatewaySettings, *places)
    async with (
        projector.run_projector(
            settings.build_role_settings(ProjectorSettings, *places), shutdown, projection_signal
        ),
        # The projector has a connection of its own, since a rebuild fills it.
        connect_client(front, "up", shutdown.create_loss_callback("nats")) as client,
        gateway.run_gateway(front, shutdown, projection_signal, client) as http,
        # Started last and stopped first, so that clients that follow a turn see how it ends.
        worker.run_worker(settings.build_role_settings(WorkerSettings, *places), shutdown, client),
    ):
        yield http


def _parse_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise Refused(
            "bad-address", f"{address!r} is not host:port", field="nats", fix="write 127.0.0.1:0"
        )
    return host, int(port)


def _write_ready_file(file: Path, addresses: ServiceAddresses) -> None:
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


STORE_CHECK_INTERVAL: Final = 3.0
"""Seconds between two looks at the server's store."""

MAX_SILENT_LOOKS: Final = 5
"""Looks in a row at a health page that does not answer until the server counts as hanging."""

LOW_ROOM_BYTES: Final = 2 * 1024 * 1024
"""With less room than this the server may refuse an event."""

WORTHWHILE_BYTES: Final = 16 * 1024 * 1024
"""The least room that a restart must gain."""

SILENT_REASON: Final = "it answers, but not about its streams"


async def _restart_when_stuck(server: NatsServer, data_dir: Path) -> None:
    silent_looks = 0
    while True:
        await asyncio.sleep(STORE_CHECK_INTERVAL)
        look = partial(find_restart_reason, server.monitor_url or "", data_dir)
        reason = await run_in_thread(look)
        silent_looks = silent_looks + 1 if reason == SILENT_REASON else 0
        if reason is not None and silent_looks in {0, MAX_SILENT_LOOKS}:
            _log.warning("nats-server-restarts", reason=reason)
            if silent_looks:
                await server.restart_without_snapshots(reason)
            else:
                await server.restart()
            silent_looks = 0


def find_restart_reason(monitor: str, data_dir: Path) -> str | None:
    """Return why a restart would help the server, if it would."""
    try:
        facts = _StoreFacts.model_validate(fetch_monitor_page(monitor, "jsz"))
    except (Unavailable, ValidationError):
        return None
    try:
        fault = fetch_store_fault(monitor)
    except Unavailable:
        return SILENT_REASON
    room = facts.config.max_storage - facts.storage
    free = shutil.disk_usage(data_dir).free
    if not can_gain_room(room, is_stuck=fault is not None, free=free):
        return None
    return f"it has space, and took no writes: {fault or 'its store was full'}"


def can_gain_room(room: int, *, is_stuck: bool, free: int) -> bool:
    """Return whether a server that refuses writes would take them after a restart.

    `room` is what its limit leaves, `is_stuck` whether it could not write to its disk, and `free`
    the free bytes of the disk, of which a start claims three quarters.
    """
    gain = free * 3 // 4 - (0 if is_stuck else max(room, 0))
    return (is_stuck or room < LOW_ROOM_BYTES) and gain >= WORTHWHILE_BYTES


class _StoreLimit(BaseModel):
    max_storage: int


class _StoreFacts(BaseModel):
    config: _StoreLimit
    storage: int
