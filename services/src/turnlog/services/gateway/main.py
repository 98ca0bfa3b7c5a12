"""The gateway process: connects to NATS and the database, and serves the application.

A gateway starts without its read models: turns are accepted, routes that need rows answer 503, and
`/readyz` reports not ready until the read models are available.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import structlog

from turnlog.events.async_tasks import run_tasks
from turnlog.events.codec import EventBatch
from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.jetstream_client import JetStreamClient
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.projections.store.read.row_lookups import CommandLookup
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.services.blueprints.blueprint_folders import create_blueprint_folders
from turnlog.services.gateway.app import build_app
from turnlog.services.gateway.dependencies import GatewayDependencies, build_dependencies
from turnlog.services.http.http_protocol import create_http_protocol
from turnlog.services.identity.authenticator import check_listener, has_credentials
from turnlog.services.identity.browser_tokens import BrowserTokens
from turnlog.services.identity.oidc_setup import open_oidc_access
from turnlog.services.integrity.folded_positions import RowPositions, answer_position_requests
from turnlog.services.integrity.log_guard import LogGuard
from turnlog.services.integrity.log_health import create_log_checks
from turnlog.services.integrity.record_watch import DamagedSessionGuard, RecordWatch
from turnlog.services.model_facts.model_prices import ModelPrices
from turnlog.services.platform.asgi_server import serve_asgi
from turnlog.services.platform.process_health import HealthCheck
from turnlog.services.platform.process_settings import GatewaySettings
from turnlog.services.platform.secret_masking import hide_credentials
from turnlog.services.platform.shutdown import Shutdown
from turnlog.services.process_components import ProcessComponents, connect_components
from turnlog.services.sessions.cache_rollback_check import watch_log_identity
from turnlog.services.use_cases.use_case_composition import UseCaseParts

_log = structlog.get_logger("turnlog.gateway")


@asynccontextmanager
async def run_gateway(
    settings: GatewaySettings,
    shutdown: Shutdown,
    projection_signal: ProjectionSignal,
    client: JetStreamClient | None = None,
    shared_checks: dict[str, HealthCheck] | None = None,
) -> AsyncGenerator[str]:
    """Serve while the context is open and yield the address.

    A projector in the same process signals `projection_signal`. A worker in the same process
    shares `client`, and adds its health to `shared_checks`, which readiness asks.
    """
    check_listener(settings)
    # Whoever signs in may be of another tenant than those who do not.
    watched = settings.tenant if settings.serves_one_tenant else None
    async with connect_components(
        settings, "gateway", shutdown, tenant=watched, client=client
    ) as parts:
        store = open_store(settings.database_url.get_secret_value())
        try:
            await _prepare_read_models(settings, store)
            guard = LogGuard(
                log=parts.log,
                library=parts.library,
                positions=RowPositions(store),
                tenant=settings.tenant,
            )
            record = RecordWatch(parts.connection)
            guarded = _guard_appends(parts, store, guard, record)
            checks = {} if shared_checks is None else shared_checks
            checks["durability"] = parts.durability.require_promised
            checks |= create_log_checks(parts.connection, settings, guard, record)
            use_case_parts = _create_use_case_parts(
                settings, guarded, store, projection_signal, record=record, health_checks=checks
            )
            async with (
                _open_dependencies(settings, use_case_parts, parts) as deps,
                run_tasks(_check_integrity(store)),
                guard.run_checks(),
                record.run_checks(),
                answer_position_requests(parts.connection, store),
                watch_log_identity(parts.connection, use_case_parts.command_handler, shutdown),
                deps.use_cases.erasures.service.run_rounds(),
                deps.use_cases.retention.due.run_rounds(),
                deps.use_cases.source_erasures.service.run_rounds(),
                serve_app(deps) as address,
            ):
                _log.info("gateway-listening", address=address, tenant=settings.tenant)
                if not has_credentials(settings):
                    _log.info("no-keys-asked-for", fix="set TURNLOG_ROOT_KEY to ask for them")
                yield address
        finally:
            await store.close()


@asynccontextmanager
async def _open_dependencies(
    settings: GatewaySettings, use_case_parts: UseCaseParts, parts: ProcessComponents
) -> AsyncGenerator[GatewayDependencies]:
    async with open_oidc_access(settings) as oidc:
        yield build_dependencies(settings, use_case_parts, parts.tracing, oidc)


async def _prepare_read_models(settings: GatewaySettings, store: ReadModelStore) -> None:
    try:
        await prepare_schema(store)
    except Unavailable as error:
        address = hide_credentials(settings.database_url.get_secret_value())
        _log.warning("waiting-for-read-models", address=address, detail=error.detail)


async def _check_integrity(store: ReadModelStore) -> None:
    # Readiness reads the store, which remembers damage.
    with suppress(Unavailable):
        await store.check_integrity()


def _guard_appends(
    components: ProcessComponents, store: ReadModelStore, guard: LogGuard, record: RecordWatch
) -> ProcessComponents:
    """Return the components with logs that refuse what would continue another history."""
    sessions = DamagedSessionGuard(record, components.log, store)

    async def check_session_append(batch: EventBatch) -> None:
        await guard.require_current_log()
        await sessions.require_whole_session(batch)

    return replace(
        components,
        log=replace(components.log, append_guard=check_session_append),
        library=replace(components.library, append_guard=guard.check_append),
    )


def _create_use_case_parts(
    settings: GatewaySettings,
    components: ProcessComponents,
    store: ReadModelStore,
    projection_signal: ProjectionSignal,
    record: RecordWatch,
    health_checks: dict[str, HealthCheck],
) -> UseCaseParts:
    quotas = components.create_turn_quotas()
    sessions = components.create_command_handler(CommandLookup(store), quotas)
    return UseCaseParts(
        command_handler=sessions,
        tokens=components.tokens,
        max_part_bytes=settings.max_part_bytes,
        max_request_bytes=settings.body_limit,
        quotas=quotas,
        media_limits=components.media_limits,
        overrides=components.create_override_service(),
        access_keys=components.create_access_key_service(),
        tenants=components.create_tenant_service(),
        browser_tokens=None if settings.root_key is None else BrowserTokens(settings.root_key),
        webhooks=components.create_webhook_service(),
        webhook_settings=settings,
        alerts=components.create_alert_service(),
        retention=components.create_retention_service(),
        reads=components.reads,
        segment_service=components.create_segment_service(),
        knowledge_service=components.create_knowledge_service(),
        knowledge_search=components.create_knowledge_search(),
        prompt_inputs=components.create_prompt_input_loader(sessions, settings),
        blueprints=components.blueprints,
        blueprint_folders=create_blueprint_folders(settings),
        store=store,
        projection_signal=projection_signal,
        durability=components.durability,
        default_model=settings.model,
        question_blueprint=settings.ask,
        prices=ModelPrices(settings.prices),
        health_checks=health_checks,
        record_watch=record,
    )


@asynccontextmanager
async def serve_app(deps: GatewayDependencies) -> AsyncGenerator[str]:
    """Serve the application while the context is open and yield the address.

    The address holds the real port when port 0 was configured. Waiting requests are answered at
    shutdown.
    """
    settings = deps.settings
    serving = serve_asgi(
        build_app(deps),
        settings.http,
        field="http",
        grace=settings.grace,
        on_stopping=deps.shutdown_event.set,
        http=create_http_protocol(settings.body_seconds),
    )
    async with deps.open_requests.run_checks(), serving as address:
        yield address
