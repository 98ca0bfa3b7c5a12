"""All roles in one process, with a nats-server that fsyncs every acknowledgement, and SQLite.

The roles are the same as in separate processes; here they share only the event loop and the
projection signal. The ready file exists while all of them accept work.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from turnlog.events.async_tasks import run_tasks
from turnlog.events.errors import Refused
from turnlog.events.seals.written_events import WrittenEvents
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.services.caches.session_snapshots import apply_directory_key
from turnlog.services.gateway import main as gateway
from turnlog.services.integrity.nats_server_restart import restart_when_stuck
from turnlog.services.integrity.snapshot_readability import find_snapshot_fault
from turnlog.services.platform.nats_server import (
    NatsConfig,
    NatsServer,
    choose_address,
    keep_address,
)
from turnlog.services.platform.process_health import HealthCheck
from turnlog.services.platform.process_settings import (
    AllInOneSettings,
    GatewaySettings,
    ProjectorSettings,
    WorkerSettings,
)
from turnlog.services.platform.shutdown import Shutdown
from turnlog.services.process_components import connect_client
from turnlog.services.projector import main as projector
from turnlog.services.seals.keyring_files import apply_directory_keyring
from turnlog.services.seals.lost_keyring import refuse_lost_keyring
from turnlog.services.start_preparation import prepare_process
from turnlog.services.webhooks.webhook_keys import apply_webhook_key
from turnlog.services.worker import worker_process as worker

_log = structlog.get_logger("turnlog.process")


@dataclass(frozen=True, slots=True)
class ServiceAddresses:
    """Addresses of the running services, and their data directory."""

    http: str
    nats: str
    nats_consumer: str
    """The same server with the login that only reads."""
    data_dir: Path


@asynccontextmanager
async def run_all_in_one(
    settings: AllInOneSettings, shutdown: Shutdown
) -> AsyncGenerator[ServiceAddresses]:
    """Run everything while the body runs; finish or hand back running work at the end."""
    host, port = _parse_address(choose_address(settings.data_dir, settings.nats))
    config = NatsConfig(data_dir=settings.data_dir, host=host, port=port, monitor=True)
    # The one in the data directory is where commands look for a running service.
    ready_files = {settings.data_dir / "ready.json"}
    if settings.ready_file is not None:
        ready_files.add(settings.ready_file)
    async with (
        run_tasks(prepare_process()) as (preparation,),
        await NatsServer.start(config) as server,
    ):
        _remove_files(ready_files)  # A run that was killed has left them.
        keep_address(settings.data_dir, settings.nats)
        if fault := await find_snapshot_fault(server.url):
            await server.restart_without_snapshots(fault)
        settings = apply_webhook_key(apply_directory_key(settings, creating=True))
        await refuse_lost_keyring(settings, server.url)
        settings = apply_directory_keyring(settings, creating=True)
        if settings.seals_new_sessions:
            loss = "whoever loses it loses the words"
            _log.info("sessions-sealed", keyring=settings.keyring, loss=loss)
        await preparation
        restarting = restart_when_stuck(server, settings.data_dir)
        async with (
            shutdown.run_part("nats-server", server.wait_for_exit()),
            shutdown.run_part("nats-server", restarting),
            _run_roles(settings, server, shutdown) as http,
        ):
            addresses = ServiceAddresses(http, server.url, server.consumer_url, settings.data_dir)
            for file in ready_files:
                _write_ready_file(file, addresses)
            try:
                yield addresses
            finally:
                _remove_files(ready_files)


def _remove_files(files: Iterable[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


@asynccontextmanager
async def _run_roles(
    settings: AllInOneSettings, server: NatsServer, shutdown: Shutdown
) -> AsyncGenerator[str]:
    places = (server.url, server.monitor_url)
    projection_signal, written = ProjectionSignal(), WrittenEvents()
    health_checks: dict[str, HealthCheck] = {}
    front = settings.build_role_settings(GatewaySettings, *places)
    async with (
        projector.run_projector(
            settings.build_role_settings(ProjectorSettings, *places),
            shutdown,
            projection_signal,
            is_alone=True,
            written=written,
        ),
        # The projector has a connection of its own, since a rebuild fills it.
        connect_client(front, "up", shutdown, written=written) as client,
        gateway.run_gateway(
            settings=front,
            shutdown=shutdown,
            projection_signal=projection_signal,
            client=client,
            shared_checks=health_checks,
        ) as http,
        # Started last and stopped first, so that clients that follow a turn see how it ends.
        worker.run_worker(
            settings.build_role_settings(WorkerSettings, *places), shutdown, client, health_checks
        ),
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
        "nats_consumer": addresses.nats_consumer,
        "data_dir": str(addresses.data_dir.absolute()),
    }
    half = file.with_name(f"{file.name}.{os.getpid()}")
    half.touch(mode=0o600)
    half.write_text(json.dumps(ready))
    half.replace(file)
