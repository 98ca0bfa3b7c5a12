"""A service started in this process to read from a data directory; it has no worker."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Final

from turnlog.events.errors import Unavailable
from turnlog.events.log.ports import Raw
from turnlog.projections.store import checkpoints, library
from turnlog.projections.store.engine import Store, open_store
from turnlog.projections.store.reach import Bell
from turnlog.projections.store.schema import prepare
from turnlog.services.cli.environment import read
from turnlog.services.cli.logs import log_to
from turnlog.services.gateway import role as gateway
from turnlog.services.projector import role as projector
from turnlog.services.runtime.ending import Ending
from turnlog.services.runtime.nats_config import NatsConfig
from turnlog.services.runtime.nats_server import NatsServer
from turnlog.services.runtime.parts import Parts, connected
from turnlog.services.runtime.settings import GatewaySettings, ProjectorSettings
from turnlog.services.runtime.tasks import stopped
from turnlog.services.up.settings import UpSettings

PATIENCE: Final = 120.0
"""Seconds that the read models get to catch up with the log."""


@asynccontextmanager
async def serving(data_dir: Path, tenant: str, *, rows: bool) -> AsyncGenerator[str]:
    """Serve a data directory and yield the address; optionally bring its read models up to date."""
    log_to(sys.stderr, "console", least=logging.ERROR)
    ending = Ending()
    here = {"data_dir": data_dir, "tenant": tenant, "http": "127.0.0.1:0"}
    settings = read(UpSettings, os.environ, here)
    async with await NatsServer.start(NatsConfig(data_dir, monitor=True)) as server:
        places = (server.url, server.monitor_url)
        if rows:
            await _draw_level(settings.for_role(ProjectorSettings, *places), ending)
        front = settings.for_role(GatewaySettings, *places)
        async with gateway.running(front, ending, Bell()) as url:
            yield url


async def _draw_level(settings: ProjectorSettings, ending: Ending) -> None:
    """Run a projector until the read models have caught up; raises what stops it."""
    bell = Bell()
    async with (
        connected(settings, "reader", ending.lost("nats")) as parts,
        projector.running(settings, ending, bell),
    ):
        store = open_store(settings.database_url.get_secret_value())
        level = asyncio.create_task(_level(parts, store, bell))
        failed = asyncio.create_task(ending.wait())
        try:
            done, _ = await asyncio.wait(
                {level, failed}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()
        finally:
            await stopped(level, failed)
            await store.close()
    if not done:
        raise Unavailable("read models", "they do not draw level with the log")


async def _level(parts: Parts, store: Store, bell: Bell) -> None:
    await prepare(store)
    rung = bell.listen()
    while await _behind(parts, store):
        await rung.wait()
        rung = bell.listen()


async def _behind(parts: Parts, store: Store) -> bool:
    async with store.reading() as connection:
        live = await checkpoints.active(connection)
        shelved = await library.checkpoint(connection)
    sessions = parts.log.follow(None, live.position if live else 0, live=False)
    segments = parts.library.follow(shelved.position if shelved else 0, live=False)
    return await _any(sessions) or await _any(segments)


async def _any(events: AsyncGenerator[Sequence[Raw]]) -> bool:
    async with aclosing(events) as bulks:
        async for _ in bulks:
            return True
    return False
