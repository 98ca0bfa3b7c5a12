"""The composition root that all processes share: one connection and the components on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import structlog

from turnlog.events.async_tasks import run_tasks
from turnlog.events.jetstream.blob_store import JetStreamBlobStore, JetStreamMediaStore
from turnlog.events.jetstream.jetstream_client import JetStreamClient, JetStreamLog, open_client
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.jetstream.token_stream import JetStreamTokenStream
from turnlog.events.seals.written_events import WrittenEvents
from turnlog.events.store.ports import SnapshotStore
from turnlog.services.alerts.alert_service import AlertService
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.caches.media_cache import MediaReader
from turnlog.services.caches.session_snapshots import (
    AuthenticatedSnapshotStore,
    CheckedSnapshotStore,
    SealedSnapshotStore,
    create_process_key,
)
from turnlog.services.caches.state_cache import OlderCommandLookup
from turnlog.services.caches.text_cache import TextReader
from turnlog.services.command_handling.tenant_histories import LibraryParts
from turnlog.services.identity.access_key_service import AccessKeyService
from turnlog.services.identity.tenant_service import TenantService
from turnlog.services.knowledge.knowledge_service import KnowledgeService
from turnlog.services.knowledge.nats_search import NatsKnowledgeSearch
from turnlog.services.model_facts.model_dialects import ModelDialects
from turnlog.services.model_facts.response_formats import ResponseFormats
from turnlog.services.overrides.override_service import OverrideService
from turnlog.services.platform.clock import create_id, read_clock
from turnlog.services.platform.connection_watch import ConnectionWatch
from turnlog.services.platform.durability import Durability, check_durability
from turnlog.services.platform.process_health import PROBE_SESSION, HealthCheck
from turnlog.services.platform.process_settings import (
    GatewaySettings,
    ProcessSettings,
    WorkerSettings,
)
from turnlog.services.platform.secret_masking import hide_credentials
from turnlog.services.platform.shutdown import Shutdown
from turnlog.services.platform.telemetry.traces import Tracing, create_tracing
from turnlog.services.quotas.limited_media_store import LimitedMediaStore
from turnlog.services.quotas.media_limit_service import MediaLimitService
from turnlog.services.quotas.quota_reservations import TurnQuotas
from turnlog.services.quotas.quota_service import QuotaService
from turnlog.services.retention.retention_service import RetentionService
from turnlog.services.seals.keyring_files import load_keyring
from turnlog.services.seals.library_sealing import LibrarySealing
from turnlog.services.seals.session_sealing import SessionSealing
from turnlog.services.segments.segment_service import SegmentService
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.prompt_inputs import PromptInputLoader, SegmentFetcher
from turnlog.services.start_preparation import prepare_process
from turnlog.services.webhooks.webhook_service import WebhookService

_log = structlog.get_logger("turnlog.process")

NOTICED_WAIT: Final = 1.0
"""Seconds without a connection after which a start logs what it waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessComponents:
    """The components that a process builds on its connection."""

    role: str
    connection: NatsConnection
    log: JetStreamLog
    library: JetStreamLog
    alerts: JetStreamLog
    reads: JetStreamLog
    blobs: JetStreamBlobStore
    media: JetStreamMediaStore
    snapshots: SnapshotStore
    tokens: JetStreamTokenStream
    blueprints: BlueprintStore
    durability: Durability
    tracing: Tracing
    seals_new_sessions: bool = False
    """Whether the words of new sessions and of what is added to the library are encrypted."""

    def create_health_checks(self, tenant: str) -> dict[str, HealthCheck]:
        """Create the checks of a role's own health endpoint that every such role has."""
        return {
            "nats": lambda: self.log.read_last_event(tenant, PROBE_SESSION, leader=True),
            "durability": self.durability.require_promised,
        }

    def create_command_handler(
        self, older_commands: OlderCommandLookup, quotas: TurnQuotas | None = None
    ) -> CommandHandler:
        """Create this process's command handler."""
        handler = CommandHandler(
            log=self.log,
            snapshots=CheckedSnapshotStore(self.log, self.snapshots),
            texts=TextReader(log=self.log, blobs=self.blobs, media=MediaReader(self.limited_media)),
            older_commands=older_commands,
            clock=read_clock,
            create_id=create_id,
            source=f"/turnlog/{self.role}",
            quotas=quotas or self.create_turn_quotas(),
            sealing=SessionSealing(self.connection.keys, is_on=self.seals_new_sessions),
        )
        if self.connection.keys:
            self.connection.keys.add_listener(handler.state_cache.forget_session)
        return handler

    @property
    def library_parts(self) -> LibraryParts:
        """What the histories of the library are read and written with."""
        sealing = LibrarySealing(self.connection.keys, self.blobs, is_on=self.seals_new_sessions)
        return LibraryParts(
            log=self.library,
            blobs=self.blobs,
            clock=read_clock,
            create_id=create_id,
            source=f"/turnlog/{self.role}",
            sealing=sealing,
        )

    @property
    def media_limits(self) -> MediaLimitService:
        """The limits of what tenants store, for this process."""
        return MediaLimitService(self.library_parts, self.media)

    @property
    def limited_media(self) -> LimitedMediaStore:
        """The store that everything of this process stores media by."""
        return LimitedMediaStore(self.media, self.media_limits)

    def create_turn_quotas(self) -> TurnQuotas:
        """Create what reserves and settles this process's turns."""
        return TurnQuotas(QuotaService(self.library_parts), self.log)

    def create_segment_service(self) -> SegmentService:
        """Create this process's segment service."""
        return SegmentService(self.library_parts)

    def create_override_service(self) -> OverrideService:
        """Create this process's service of the users' own prompts."""
        return OverrideService(self.library_parts)

    def create_access_key_service(self) -> AccessKeyService:
        """Create this process's service of keys."""
        return AccessKeyService(self.library_parts)

    def create_tenant_service(self) -> TenantService:
        """Create this process's service of the settings of tenants."""
        return TenantService(self.library_parts)

    def create_webhook_service(self) -> WebhookService:
        """Create this process's service of webhooks."""
        return WebhookService(self.library_parts)

    def create_retention_service(self) -> RetentionService:
        """Create this process's service of policies and holds."""
        return RetentionService(self.library_parts)

    def create_alert_service(self) -> AlertService:
        """Create this process's service of alerts."""
        return AlertService(self.library_parts, self.alerts)

    def create_knowledge_service(self) -> KnowledgeService:
        """Create this process's knowledge service."""
        return KnowledgeService(self.library_parts)

    def create_knowledge_search(self) -> NatsKnowledgeSearch:
        """Create the search that the projectors answer."""
        return NatsKnowledgeSearch(self.connection)

    def create_prompt_input_loader(
        self, command_handler: CommandHandler, settings: GatewaySettings | WorkerSettings
    ) -> PromptInputLoader:
        """Create the loader of what prompts are assembled from."""
        segment_service = self.create_segment_service()
        dialects = ModelDialects(settings.model_dialects)
        return PromptInputLoader(
            command_handler,
            SegmentFetcher(segment_service, command_handler.texts),
            ResponseFormats(settings.response_format, dialects),
            dialects,
        )


@asynccontextmanager
async def connect_client(
    settings: ProcessSettings,
    role: str,
    shutdown: Shutdown,
    tenant: str | None = None,
    written: WrittenEvents | None = None,
) -> AsyncGenerator[JetStreamClient]:
    """Connect and provision; close the connection when the body ends.

    What the client watches is of this tenant, or of any. The process ends when the connection is
    closed permanently or cannot heal. See `open_client` on `written`.
    """
    url, terms = settings.nats_url.get_secret_value(), StreamOptions(replicas=settings.replicas)
    keyring = load_keyring(settings)
    # A server that answers at once was not waited for, and a first start says little.
    notice = asyncio.get_running_loop().call_later(
        NOTICED_WAIT,
        partial(_log.info, "waiting-for-nats", role=role, address=hide_credentials(url)),
    )
    try:
        lost = shutdown.create_loss_callback("nats")
        async with open_client(
            url,
            terms,
            name=f"turnlog-{role}",
            tenant=tenant,
            on_closed=lost,
            keyring=keyring,
            archive=settings.archive,
            written=written,
        ) as client:
            notice.cancel()
            watch = ConnectionWatch(client.connection)
            async with shutdown.run_part("nats", watch.watch_connection()):
                yield client
    finally:
        notice.cancel()


@asynccontextmanager
async def connect_components(
    settings: ProcessSettings,
    role: str,
    shutdown: Shutdown,
    *,
    tenant: str | None = None,
    client: JetStreamClient | None = None,
    written: WrittenEvents | None = None,
) -> AsyncGenerator[ProcessComponents]:
    """Connect as `connect_client` does, unless there is a client, and build the components on it.

    What would hold the event loop at its first use is built by then. Everything that was opened
    here is closed when the body ends.
    """
    durability = await check_durability(
        settings.durability, settings.replicas, settings.nats_monitor
    )
    key = settings.snapshot_key
    if key is None:
        _log.info("snapshot-key-missing", snapshots="only those of this process are believed")
    snapshot_key = key.get_secret_value() if key else create_process_key()
    traces = create_tracing(role, settings.otlp_endpoint, is_measured=settings.metrics is not None)
    connecting = nullcontext(client) if client else None
    try:
        async with (
            run_tasks(prepare_process()) as (preparation,),
            connecting or connect_client(settings, role, shutdown, tenant, written=written) as on,
        ):
            await preparation
            yield ProcessComponents(
                role=role,
                connection=on.connection,
                log=on.log,
                library=on.library,
                alerts=on.alerts,
                reads=on.reads,
                blobs=on.blobs,
                media=replace(on.media, seals_uploads=settings.seals_new_sessions),
                snapshots=AuthenticatedSnapshotStore(
                    SealedSnapshotStore(on.snapshots, on.connection.keys), snapshot_key
                ),
                tokens=on.tokens,
                blueprints=BlueprintStore(on.blobs),
                durability=durability,
                tracing=traces,
                seals_new_sessions=settings.seals_new_sessions,
            )
    finally:
        traces.close()
