"""A service started in this process to read from a data directory; it has no worker."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Final

from turnlog.events.async_tasks import run_tasks
from turnlog.events.errors import Unavailable
from turnlog.events.store.ports import RawEvent
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.projections.store.write import projection_positions, segment_projection
from turnlog.services.caches.session_snapshots import apply_directory_key
from turnlog.services.cli.environment import read_settings
from turnlog.services.cli.process_log import configure_log
from turnlog.services.gateway import main as gateway
from turnlog.services.platform.nats_server import NatsConfig, NatsServer
from turnlog.services.platform.process_settings import (
    AllInOneSettings,
    GatewaySettings,
    ProjectorSettings,
)
from turnlog.services.platform.shutdown import Shutdown
from turnlog.services.process_components import ProcessComponents, connect_components
from turnlog.services.projector import main as projector
from turnlog.services.seals.keyring_files import apply_directory_keyring

CATCH_UP_SECONDS: Final = 120.0
"""Seconds that the read models get to catch up with the log."""


@asynccontextmanager
async def run_local_service(
    data_dir: Path, tenant: str, *, with_read_models: bool
) -> AsyncGenerator[str]:
    """Serve a data directory and yield the address; optionally bring its read models up to date."""
    configure_log(sys.stderr, "console", minimum_level="warning")
    ending = Shutdown()
    overrides = {"data_dir": data_dir, "tenant": tenant, "http": "127.0.0.1:0"}
    settings = read_settings(AllInOneSettings, os.environ, overrides)
    async with await NatsServer.start(NatsConfig(data_dir=data_dir, monitor=True)) as server:
        settings = apply_directory_key(settings, creating=False)
        settings = apply_directory_keyring(settings, creating=False)
        places = (server.url, server.monitor_url)
        if with_read_models:
            await _wait_for_read_models(
                settings.build_role_settings(ProjectorSettings, *places), ending
            )
        front = settings.build_role_settings(GatewaySettings, *places)
        async with gateway.run_gateway(front, ending, ProjectionSignal()) as url:
            yield url


async def _wait_for_read_models(settings: ProjectorSettings, ending: Shutdown) -> None:
    """Run a projector until the read models have caught up; raises what stops it."""
    projection_signal = ProjectionSignal()
    async with (
        connect_components(settings, "reader", ending) as parts,
        projector.run_projector(settings, ending, projection_signal),
    ):
        store = open_store(settings.database_url.get_secret_value())
        catching_up = _wait_until_caught_up(parts, store, projection_signal)
        try:
            async with run_tasks(catching_up, ending.wait()) as tasks:
                done, _ = await asyncio.wait(
                    tasks, timeout=CATCH_UP_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    task.result()
        finally:
            await store.close()
    if not done:
        raise Unavailable("read models", "they do not draw level with the log")


async def _wait_until_caught_up(
    parts: ProcessComponents, store: ReadModelStore, projection_signal: ProjectionSignal
) -> None:
    await prepare_schema(store)
    next_signal = projection_signal.get_next_signal()
    while await _is_behind(parts, store):
        await next_signal.wait()
        next_signal = projection_signal.get_next_signal()


async def _is_behind(parts: ProcessComponents, store: ReadModelStore) -> bool:
    async with store.open_reader() as connection:
        live = await projection_positions.read_active_position(connection)
        shelved = await segment_projection.read_segments_position(connection)
    sessions = parts.log.stream_raw_events(None, live.position if live else 0, live=False)
    segments = parts.library.stream_raw_events(None, shelved.position if shelved else 0, live=False)
    return await _has_any(sessions) or await _has_any(segments)


async def _has_any(events: AsyncGenerator[Sequence[RawEvent]]) -> bool:
    async with aclosing(events) as bulks:
        async for _ in bulks:
            return True
    return False
