"""The gateway process: connects to NATS and the database, and serves the application.

A gateway starts without its read models: turns are accepted, routes that need rows answer 503, and
`/readyz` reports not ready until the read models are available.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from turnlog.events.errors import Unavailable
from turnlog.projections.store.commands import FoldedCommands
from turnlog.projections.store.engine import Store, open_store
from turnlog.projections.store.reach import Bell
from turnlog.projections.store.schema import prepare
from turnlog.services.gateway.desk import Desk
from turnlog.services.gateway.serving import serving
from turnlog.services.runtime.continuity import proving
from turnlog.services.runtime.ending import Ending
from turnlog.services.runtime.library import SHIPPED, Library
from turnlog.services.runtime.parts import Parts, connected
from turnlog.services.runtime.settings import GatewaySettings


@asynccontextmanager
async def running(settings: GatewaySettings, ending: Ending, bell: Bell) -> AsyncGenerator[str]:
    """Serve while the context is open and yield the address.

    A projector in the same process signals `projection_signal`.
    """
    async with connected(settings, "gateway", ending.lost("nats")) as parts:
        store = open_store(settings.database_url.get_secret_value())
        try:
            with suppress(Unavailable):
                await prepare(store)
            desk = _desk(settings, parts, store, bell)
            async with (
                proving(parts.connection, desk.sessions, ending),
                serving(desk) as address,
            ):
                yield address
        finally:
            await store.close()


def _desk(settings: GatewaySettings, parts: Parts, store: Store, bell: Bell) -> Desk:
    sessions = parts.sessions(FoldedCommands(store))
    return Desk(
        settings=settings,
        log=parts.log,
        tokens=parts.tokens,
        sessions=sessions,
        shelves=parts.shelves(),
        gathering=parts.gathering(sessions.texts),
        blueprints=parts.blueprints,
        library=Library((*settings.blueprints, SHIPPED)),
        store=store,
        bell=bell,
        tracing=parts.tracing,
        durability=parts.durability,
    )
