from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

from turnlog.projections.store.checkpoints import active
from turnlog.projections.store.engine import Store, open_store
from turnlog.projections.store.reach import Bell
from turnlog.services.projector.app import build
from turnlog.services.projector.library import LibraryProjector
from turnlog.services.runtime.ending import Ending
from turnlog.services.runtime.health import NOBODY, Questions, telling
from turnlog.services.runtime.parts import connected
from turnlog.services.runtime.settings import ProjectorSettings
from turnlog.services.runtime.tasks import stopped


@asynccontextmanager
async def running(settings: ProjectorSettings, ending: Ending, bell: Bell) -> AsyncGenerator[None]:
    """Keep the read models up to date while the body runs.

    A log that does not match the rows ends the process.
    """
    async with connected(settings, "projector", ending.lost("nats")) as parts:
        store = open_store(settings.database_url.get_secret_value())
        projector = build(settings, log=parts.log, store=store, bell=bell, tracing=parts.tracing)
        library = LibraryProjector(parts.library, parts.blobs, store, settings.tenant, bell)
        folding = ending.watched(asyncio.create_task(projector.run()), "projector")
        shelving = ending.watched(asyncio.create_task(library.run()), "library")
        asked: Questions = {
            "nats": lambda: parts.log.last(settings.tenant, NOBODY, leader=True),
            "database": partial(_answered, store),
        }
        try:
            async with telling(settings.health, asked):
                yield
        finally:
            await stopped(folding, shelving)
            await store.close()


async def _answered(store: Store) -> None:
    async with store.reading() as connection:
        await active(connection)
