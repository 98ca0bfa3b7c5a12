"""The gateway process: connects to NATS and the database, and serves the application.

A gateway starts without its read models: turns are accepted, routes that need rows answer 503, and
`/readyz` reports not ready until the read models are available.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from turnlog.events.errors import Unavailable
from turnlog.projections.store.commands import CommandLookup
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.reach import ProjectionSignal
from turnlog.projections.store.schema import prepare_schema
from turnlog.services.gateway.desk import GatewayDependencies
from turnlog.services.gateway.serving import serve_app
from turnlog.services.runtime.continuity import watch_log_identity
from turnlog.services.runtime.ending import Shutdown
from turnlog.services.runtime.library import SHIPPED_BLUEPRINTS, BlueprintFolders
from turnlog.services.runtime.parts import ProcessComponents, connect_components
from turnlog.services.runtime.settings import GatewaySettings


@asynccontextmanager
async def run_gateway(settings: GatewaySettings, shutdown: Shutdown, projection_signal: ProjectionSignal) -> AsyncGenerator[str]:
    """Serve while the context is open and yield the address.

    A projector in the same process signals `projection_signal`.
    """
    async with connect_components(settings, "gateway", shutdown.create_loss_callback("nats")) as parts:
        store = open_store(settings.database_url.get_secret_value())
        try:
            with suppress(Unavailable):
                await prepare_schema(store)
            desk = _create_dependencies(settings, parts, store, projection_signal)
            async with (
                watch_log_identity(parts.connection, desk.sessions, shutdown),
                serve_app(desk) as address,
            ):
                yield address
        finally:
            await store.close()


def _create_dependencies(settings: GatewaySettings, components: ProcessComponents, store: ReadModelStore, projection_signal: ProjectionSignal) -> GatewayDependencies:
    sessions = components.create_command_handler(CommandLookup(store))
    return GatewayDependencies(
        settings=settings,
        log=components.log,
        tokens=components.tokens,
        sessions=sessions,
        segment_service=components.create_segment_service(),
        prompt_inputs=components.create_prompt_input_loader(sessions.texts),
        blueprints=components.blueprints,
        blueprint_folders=BlueprintFolders((*settings.blueprints, SHIPPED_BLUEPRINTS)),
        store=store,
        projection_signal=projection_signal,
        tracing=components.tracing,
        durability=components.durability,
    )
