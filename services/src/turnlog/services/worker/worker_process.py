"""The worker process: connect its components, start them and shut them down."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from turnlog.events.async_tasks import run_tasks
from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.jetstream_client import JetStreamClient
from turnlog.projections.session.state import IdempotencyRecord, SessionState
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS, BlueprintFolders
from turnlog.services.extensions.mcp_servers_file import load_tools_file
from turnlog.services.identity.tenant_service import TenantService
from turnlog.services.integrity.folded_positions import PeerPositions
from turnlog.services.integrity.log_guard import LogGuard
from turnlog.services.integrity.log_health import create_log_checks
from turnlog.services.integrity.record_watch import RecordWatch
from turnlog.services.knowledge.current_search import CurrentKnowledgeSearch
from turnlog.services.model_facts.attempt_pricing import AttemptPricing
from turnlog.services.model_facts.model_prices import ModelPrices
from turnlog.services.platform.process_health import (
    HealthCheck,
    HealthChecks,
    serve_health,
)
from turnlog.services.platform.process_settings import WorkerSettings
from turnlog.services.platform.shutdown import Shutdown
from turnlog.services.process_components import ProcessComponents, connect_components
from turnlog.services.sessions.cache_rollback_check import watch_log_identity
from turnlog.services.worker.attempts.attempt_heartbeats import AttemptHeartbeat
from turnlog.services.worker.attempts.attempt_outcomes import OutcomeRecorder
from turnlog.services.worker.attempts.call_context import CallContextBuilder
from turnlog.services.worker.early_listings import run_early_listings
from turnlog.services.worker.model.model_router import ModelRouter
from turnlog.services.worker.model.provider_keys import ProviderKeys
from turnlog.services.worker.queue_keeper import QueueKeeper
from turnlog.services.worker.tools.mcp_server_settings import check_endpoints
from turnlog.services.worker.tools.mcp_servers import McpToolServers
from turnlog.services.worker.tools.worker_tool_servers import WorkerToolServers
from turnlog.services.worker.turn_delivery import compute_redelivery_wait
from turnlog.services.worker.turn_runner import TurnRunner
from turnlog.services.worker.turn_subscription import TurnBroker, build_broker, run_broker


class NoOlderCommands:
    """A store of older commands for workers, whose commands carry no idempotency keys."""

    async def find_command(self, state: SessionState, key: str) -> IdempotencyRecord | None:
        """See `OlderCommands.find`."""
        raise Unavailable("read models", f"no worker looks up {key} of {state.session}")


@asynccontextmanager
async def run_worker(
    settings: WorkerSettings,
    ending: Shutdown,
    client: JetStreamClient | None = None,
    shared_checks: dict[str, HealthCheck] | None = None,
) -> AsyncGenerator[TurnRunner]:
    """Run turns while the body runs; litellm is imported meanwhile if the default model needs it.

    A gateway in the same process shares `client` and reports what is added to `shared_checks`; no
    other worker exists then. Raises `FaultyToolsFile` before anything is connected.
    """
    servers = _create_tool_servers(settings)
    async with connect_components(settings, "worker", ending, client=client) as parts:
        guard, record = _create_guard(settings, parts), RecordWatch(parts.connection)
        model, tenants = _create_model(settings), parts.create_tenant_service()
        answering = _build_turn_runner(
            settings=settings,
            parts=_guard_appends(parts, guard),
            model=model,
            servers=servers,
            tenants=tenants,
            is_alone=client is not None,
        )
        durable = await _open_queue(settings, parts, is_alone=answering.is_alone)
        broker = _build_slots(settings, parts, answering, tenants)
        shared: HealthChecks = {
            "durable": durable.fetch_settled_sequence,
            "turns": broker.require_listening,
            "model": partial(model.require_loaded, settings.model),
            "tools": answering.tool_snapshots.require_all_available,
        }
        health_checks = {
            **parts.create_health_checks(settings.tenant),
            **create_log_checks(parts.connection, settings, guard, record),
            **shared,
        }
        if shared_checks is not None:
            shared_checks.update(shared)
        try:
            async with (
                ending.run_part("durable", durable.watch_consumer()),
                guard.run_checks(),
                record.run_checks(),
                watch_log_identity(parts.connection, answering.sessions, ending),
                run_broker(broker, answering, settings.grace),
                run_early_listings(parts.connection, settings.tenant, answering),
                # Not before work is accepted: the import would delay everything else.
                run_tasks(model.load_early(settings.model)),
                serve_health(settings.health, health_checks, settings.tenant),
            ):
                yield answering
        finally:
            await answering.tool_snapshots.close()
            await answering.servers.close()
            await model.close()


def _create_guard(settings: WorkerSettings, parts: ProcessComponents) -> LogGuard:
    return LogGuard(
        log=parts.log,
        library=parts.library,
        positions=PeerPositions(parts.connection),
        tenant=settings.tenant,
    )


def _guard_appends(parts: ProcessComponents, guard: LogGuard) -> ProcessComponents:
    return replace(
        parts,
        log=replace(parts.log, append_guard=guard.check_append),
        library=replace(parts.library, append_guard=guard.check_append),
    )


async def _open_queue(
    settings: WorkerSettings, parts: ProcessComponents, *, is_alone: bool
) -> QueueKeeper:
    durable = QueueKeeper(
        connection=parts.connection,
        identity=await parts.log.get_identity(settings.tenant),
        snapshots=parts.snapshots,
        redelivery_wait=compute_redelivery_wait(settings.ack_wait),
    )
    await durable.wait_for_consumer()
    if is_alone:
        await durable.redeliver_pending()
    return durable


def _build_slots(
    settings: WorkerSettings,
    parts: ProcessComponents,
    answering: TurnRunner,
    tenants: TenantService,
) -> TurnBroker:
    """Build the slots, which the tenants that have settings or keys share."""
    keys = parts.create_access_key_service()

    async def list_tenants() -> Collection[str]:
        return {*await tenants.list_names(), *await keys.list_tenants()}

    return build_broker(
        connection=parts.connection,
        slots=settings.concurrency,
        grace=settings.grace,
        answering=answering,
        list_tenants=list_tenants,
    )


def _create_model(settings: WorkerSettings) -> ModelRouter:
    return ModelRouter(
        settings.model_adapter,
        os.environ,
        scripts=settings.scripts,
        timeouts_by_model=settings.model_timeouts,
    )


def _create_tool_servers(settings: WorkerSettings) -> WorkerToolServers:
    if settings.tools is None:
        return WorkerToolServers()
    tools = load_tools_file(settings.tools)
    check_endpoints(tools, os.environ)
    return WorkerToolServers(McpToolServers(tools=tools))


def _build_turn_runner(
    settings: WorkerSettings,
    parts: ProcessComponents,
    model: ModelRouter,
    servers: WorkerToolServers,
    tenants: TenantService,
    *,
    is_alone: bool,
) -> TurnRunner:
    sessions = parts.create_command_handler(NoOlderCommands())
    library = BlueprintFolders((*settings.blueprints, SHIPPED_BLUEPRINTS))
    inputs = parts.create_prompt_input_loader(sessions, settings)
    return TurnRunner(
        name=f"{socket.gethostname()}-{os.getpid()}",
        sessions=sessions,
        blueprints=parts.blueprints,
        contexts=CallContextBuilder(
            sessions=sessions,
            blueprints=parts.blueprints,
            blobs=parts.blobs,
            library=library,
            prompt_inputs=inputs,
            default_model=settings.model,
            tenants=tenants,
            sends_body=model.is_sent_as_recorded,
        ),
        tokens=parts.tokens,
        model=model,
        heartbeat=AttemptHeartbeat(sessions, parts.tokens, settings.ack_wait / 3),
        outcomes=OutcomeRecorder(
            sessions=sessions,
            blobs=parts.blobs,
            pricing=AttemptPricing(
                ModelPrices(settings.prices).load_table, inputs.dialects.load_table
            ),
        ),
        tracing=parts.tracing,
        ack_wait=settings.ack_wait,
        is_alone=is_alone,
        provider_keys=ProviderKeys(tenants, os.environ),
        servers=servers,
        knowledge=CurrentKnowledgeSearch(parts.library, parts.create_knowledge_search()),
    )
