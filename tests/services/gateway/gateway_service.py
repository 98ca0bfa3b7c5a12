"""A gateway over real HTTP with a log, read models, a projector and a scripted worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import httpx

from tests.support.knowledge.indexed_knowledge import SHIPPED_EMBEDDER
from tests.support.sessions.flat_pricing import create_flat_pricing
from tests.support.sessions.prepared_database import open_prepared_store
from tests.support.sessions.puppet_model import PuppetModel
from tests.support.sessions.stored_messages import StoredMessage, deliver_message
from turnlog.events.jetstream.jetstream_client import open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.model.session_events import SessionOpened
from turnlog.events.model.turn_events import TurnReleased, TurnSubmitted
from turnlog.events.store.memory_log import (
    MemoryBlobStore,
    MemoryLog,
    MemoryMediaStore,
    MemorySnapshotStore,
    MemoryTokenStream,
)
from turnlog.events.store.ports import (
    EventLog,
    MediaStore,
    SnapshotStore,
    TokenStream,
    TurnBlobStore,
)
from turnlog.events.subjects import ALERT_HISTORY, LIBRARY_HISTORY, READ_HISTORY
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.projections.store.read.row_lookups import CommandLookup
from turnlog.services.alerts.alert_service import AlertService
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS, BlueprintFolders
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.caches.media_cache import MediaReader
from turnlog.services.caches.session_snapshots import CheckedSnapshotStore
from turnlog.services.caches.text_cache import TextReader
from turnlog.services.command_handling.tenant_histories import LibraryParts
from turnlog.services.extensions.mcp_servers_file import load_configured_servers
from turnlog.services.gateway.dependencies import GatewayDependencies, build_dependencies
from turnlog.services.gateway.main import serve_app
from turnlog.services.identity.access_key_service import AccessKeyService
from turnlog.services.identity.browser_tokens import BrowserTokens
from turnlog.services.identity.tenant_service import TenantService
from turnlog.services.knowledge.index_service import IndexedKnowledge
from turnlog.services.knowledge.knowledge_service import KnowledgeService
from turnlog.services.model_facts.attempt_pricing import AttemptPricing
from turnlog.services.model_facts.model_dialects import ModelDialects
from turnlog.services.overrides.override_service import OverrideService
from turnlog.services.platform.clock import create_id, read_clock
from turnlog.services.platform.durability import Durability
from turnlog.services.platform.process_settings import GatewaySettings, ProjectorSettings
from turnlog.services.platform.telemetry.traces import Tracing, create_tracing
from turnlog.services.projector.knowledge_projector import KnowledgeProjector
from turnlog.services.projector.main import build_projector
from turnlog.services.projector.segment_projector import SegmentProjector
from turnlog.services.quotas.limited_media_store import LimitedMediaStore
from turnlog.services.quotas.media_limit_service import MediaLimitService
from turnlog.services.quotas.quota_reservations import TurnQuotas
from turnlog.services.quotas.quota_service import QuotaService
from turnlog.services.retention.retention_service import RetentionService
from turnlog.services.segments.segment_service import SegmentService
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.prompt_inputs import PromptInputLoader, SegmentFetcher
from turnlog.services.use_cases.use_case_composition import UseCaseParts
from turnlog.services.webhooks.webhook_service import WebhookService
from turnlog.services.worker.attempts.attempt_heartbeats import AttemptHeartbeat
from turnlog.services.worker.attempts.attempt_outcomes import OutcomeRecorder
from turnlog.services.worker.attempts.call_context import CallContextBuilder
from turnlog.services.worker.early_listings import list_tools_early
from turnlog.services.worker.model.model_types import LanguageModel
from turnlog.services.worker.turn_runner import TurnRunner

NO_TRACING = create_tracing("test", None)

BLUEPRINT_FOLDERS = (
    Path(__file__).parent / "blueprints",
    Path(__file__).parents[2] / "support/processes/blueprints",
)

MODEL = "puppet/one"

QUEUE_SUBJECTS = (TurnSubmitted.leaf, TurnReleased.leaf)
"""The subject endings that workers subscribe to."""


class LogBackend(Protocol):
    """A log with its blobs, snapshots and tokens."""

    @property
    def log(self) -> EventLog: ...
    @property
    def library(self) -> EventLog: ...
    @property
    def alerts(self) -> EventLog: ...
    @property
    def reads(self) -> EventLog: ...
    @property
    def blobs(self) -> TurnBlobStore: ...
    @property
    def media(self) -> MediaStore: ...
    @property
    def snapshots(self) -> SnapshotStore: ...
    @property
    def tokens(self) -> TokenStream: ...


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class MemoryBackend:
    """A backend in memory; it outlives the gateways that use it."""

    log: MemoryLog = field(default_factory=MemoryLog)
    library: MemoryLog = field(default_factory=lambda: MemoryLog(kind=LIBRARY_HISTORY))
    alerts: MemoryLog = field(default_factory=lambda: MemoryLog(kind=ALERT_HISTORY))
    reads: MemoryLog = field(default_factory=lambda: MemoryLog(kind=READ_HISTORY))
    blobs: MemoryBlobStore = field(default_factory=MemoryBlobStore)
    media: MemoryMediaStore = field(default_factory=MemoryMediaStore)
    snapshots: MemorySnapshotStore = field(default_factory=MemorySnapshotStore)
    tokens: MemoryTokenStream = field(default_factory=MemoryTokenStream)


@asynccontextmanager
async def open_backend(nats_url: str | None) -> AsyncGenerator[LogBackend]:
    """Open a backend on a nats-server, or one in memory when `nats_url` is None."""
    if nats_url is None:
        yield MemoryBackend()
        return
    async with open_client(nats_url, StreamOptions()) as jetstream:
        yield jetstream


def build_use_case_parts(
    backend: LogBackend,
    store: ReadModelStore,
    signal: ProjectionSignal,
    settings: GatewaySettings,
) -> UseCaseParts:
    """Put the parts of a gateway together, as its process does."""
    sessions = build_command_handler(backend, store, "/turnlog/gateway")
    assert sessions.quotas is not None
    return UseCaseParts(
        tokens=backend.tokens,
        max_part_bytes=settings.max_part_bytes,
        max_request_bytes=settings.body_limit,
        command_handler=sessions,
        quotas=sessions.quotas,
        media_limits=build_media_limits(backend, "/turnlog/gateway"),
        overrides=OverrideService(build_library_parts(backend, "/turnlog/gateway")),
        browser_tokens=None if settings.root_key is None else BrowserTokens(settings.root_key),
        access_keys=AccessKeyService(build_library_parts(backend, "/turnlog/gateway")),
        tenants=TenantService(build_library_parts(backend, "/turnlog/gateway")),
        webhooks=WebhookService(build_library_parts(backend, "/turnlog/gateway")),
        webhook_settings=settings,
        alerts=build_alert_service(backend, "/turnlog/gateway"),
        retention=RetentionService(build_library_parts(backend, "/turnlog/gateway")),
        reads=backend.reads,
        segment_service=build_segment_service(backend, "gateway"),
        knowledge_service=build_knowledge_service(backend, "gateway"),
        knowledge_search=IndexedKnowledge(
            store=store, signal=signal, embedder=SHIPPED_EMBEDDER, position_timeout=60
        ),
        prompt_inputs=build_prompt_inputs(
            backend, sessions, "gateway", ModelDialects(settings.model_dialects)
        ),
        blueprints=BlueprintStore(backend.blobs),
        blueprint_folders=BlueprintFolders(
            (*settings.blueprints, *BLUEPRINT_FOLDERS, SHIPPED_BLUEPRINTS),
            load_configured_servers(settings.tools),
            hides_shipped=settings.shipped_blueprints == "off",
        ),
        store=store,
        projection_signal=signal,
        durability=Durability("fsync-acked", checked=True),
        default_model=settings.model,
        question_blueprint=settings.ask,
    )


def build_command_handler(
    backend: LogBackend, store: ReadModelStore, source: str
) -> CommandHandler:
    """Make the sessions of one process."""
    snapshots = CheckedSnapshotStore(backend.log, backend.snapshots)
    media = LimitedMediaStore(backend.media, build_media_limits(backend, source))
    texts = TextReader(log=backend.log, blobs=backend.blobs, media=MediaReader(media))
    quotas = TurnQuotas(QuotaService(build_library_parts(backend, source)), backend.log)
    return CommandHandler(
        log=backend.log,
        snapshots=snapshots,
        texts=texts,
        older_commands=CommandLookup(store),
        clock=read_clock,
        create_id=create_id,
        source=source,
        quotas=quotas,
    )


def build_media_limits(backend: LogBackend, source: str) -> MediaLimitService:
    """Make the limits of stored media of one process."""
    return MediaLimitService(build_library_parts(backend, source), backend.media)


def build_segment_service(backend: LogBackend, role: str) -> SegmentService:
    """Make one process's view of the library."""
    return SegmentService(build_library_parts(backend, f"/turnlog/{role}"))


def build_knowledge_service(backend: LogBackend, role: str) -> KnowledgeService:
    """Make one process's view of the knowledge."""
    return KnowledgeService(build_library_parts(backend, f"/turnlog/{role}"))


def build_alert_service(backend: LogBackend, source: str) -> AlertService:
    """Make one process's view of the alerts."""
    return AlertService(build_library_parts(backend, source), backend.alerts)


def build_library_parts(backend: LogBackend, source: str) -> LibraryParts:
    """Make what the histories of the library are written with by one process."""
    return LibraryParts(
        log=backend.library,
        blobs=backend.blobs,
        clock=read_clock,
        create_id=create_id,
        source=source,
    )


def build_prompt_inputs(
    backend: LogBackend, sessions: CommandHandler, role: str, dialects: ModelDialects | None = None
) -> PromptInputLoader:
    """Make what gives calls of one process their inputs and segments."""
    segments = SegmentFetcher(build_segment_service(backend, role), sessions.texts)
    return PromptInputLoader(sessions, segments, dialects=dialects or ModelDialects())


@dataclass(repr=False, kw_only=True)
class RunningGateway:
    """A running gateway with the backend, the store and the model behind it."""

    backend: LogBackend
    tenant: str
    store: ReadModelStore
    projection_signal: ProjectionSignal
    settings: GatewaySettings
    address: str
    http: httpx.AsyncClient
    parts: UseCaseParts
    """What its use cases are made from."""
    dependencies: GatewayDependencies
    model: PuppetModel
    handled: asyncio.Queue[StoredMessage] = field(default_factory=asyncio.Queue[StoredMessage])
    """The messages that the worker is done with."""

    async def open_session(self, blueprint: str = "clerk", **form: object) -> str:
        """Open a session and return its id."""
        attributes = {"desk": "d-1"} if blueprint == "clerk" else {}
        body = {"blueprint": blueprint, "attributes": attributes} | form
        answer = await self.http.post("/v1/sessions", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["session"])

    async def submit_turn(self, session: str, text: str = "Hi", **form: object) -> dict[str, Any]:
        """Submit a turn and return the response body."""
        answer = await self.http.post(f"/v1/sessions/{session}/turns", json={"text": text} | form)
        assert answer.status_code == 202, answer.text
        return dict(answer.json())

    async def submit_and_answer(self, session: str, text: str, reply: str) -> dict[str, Any]:
        """Submit a turn, let the model give `reply`, and return the settled turn."""
        self.model.scripts.append([reply])
        url = f"/v1/sessions/{session}/turns?wait=30"
        answer = await self.http.post(url, json={"text": text})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def fetch_json(self, path: str, **query: Any) -> Any:  # noqa: ANN401 - JSON of any shape
        # With `params`, also empty ones, httpx drops the query of a path.
        answer = await self.http.get(httpx.URL(path).copy_merge_params(query))
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def count_stored_events(self) -> int:
        """Count the tenant's events on the log."""
        answer = await self.http.get("/v1/events", headers={"Accept": "application/x-ndjson"})
        return len(answer.content.splitlines())

    @asynccontextmanager
    async def start_another_gateway(self, **settings: object) -> AsyncGenerator[RunningGateway]:
        """Start a second gateway on the same log, as after a restart."""
        changed = self.settings.model_copy(update=settings)
        async with start_gateway(
            backend=self.backend,
            store=self.store,
            signal=self.projection_signal,
            settings=changed,
            model=self.model,
        ) as stand:
            yield stand


@asynccontextmanager
async def start_service(
    backend: LogBackend,
    tenant: str,
    folder: Path,
    *,
    working: bool = True,
    traces: Tracing = NO_TRACING,
    blueprints: tuple[Path, ...] = (),
) -> AsyncGenerator[RunningGateway]:
    """Run a gateway, a projector and a worker on a log."""
    signal, model = ProjectionSignal(), PuppetModel()
    handled = asyncio.Queue[StoredMessage]()
    store = await open_prepared_store(folder / "rows.db")
    projector = build_projector(
        ProjectorSettings(tenant=tenant),
        log=backend.log,
        store=store,
        signal=signal,
        tracing=NO_TRACING,
    )
    settings = GatewaySettings(
        tenant=tenant, http="127.0.0.1:0", model=MODEL, grace=2, blueprints=blueprints
    )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        library = SegmentProjector(
            log=backend.library, blobs=backend.blobs, store=store, tenant=tenant, signal=signal
        )
        knowledge = KnowledgeProjector(
            log=backend.library,
            blobs=backend.blobs,
            store=store,
            tenant=tenant,
            signal=signal,
            embedder=SHIPPED_EMBEDDER,
        )
        running = [asyncio.create_task(each.run()) for each in (projector, library, knowledge)]
        if working:
            worker = build_worker(backend, store, model, create_flat_pricing("puppet-1"))
            running.append(asyncio.create_task(run_worker(backend, tenant, worker, handled)))
        stack.push_async_callback(cancel_tasks, *running)
        stand = await stack.enter_async_context(
            start_gateway(
                backend=backend,
                store=store,
                signal=signal,
                settings=settings,
                model=model,
                traces=traces,
            )
        )
        yield replace(stand, handled=handled)


@asynccontextmanager
async def start_gateway(
    backend: LogBackend,
    store: ReadModelStore,
    signal: ProjectionSignal,
    settings: GatewaySettings,
    model: PuppetModel,
    traces: Tracing = NO_TRACING,
) -> AsyncGenerator[RunningGateway]:
    """Start one gateway."""
    parts = build_use_case_parts(backend, store, signal, settings)
    dependencies = build_dependencies(settings, parts, traces)
    # The client ends last, so that it hears what a gateway says as it ends
    async with httpx.AsyncClient(timeout=60) as http, serve_app(dependencies) as address:
        http.base_url = httpx.URL(address)
        yield RunningGateway(
            backend=backend,
            tenant=settings.tenant,
            store=store,
            projection_signal=signal,
            settings=settings,
            address=address,
            http=http,
            parts=parts,
            dependencies=dependencies,
            model=model,
        )


async def cancel_tasks(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks until all have ended; a task gets 5 s to close its resources."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=5)


def build_worker(
    backend: LogBackend,
    store: ReadModelStore,
    model: LanguageModel,
    pricing: AttemptPricing,
    *,
    named: str = MODEL,
    blueprints: tuple[Path, ...] = (),
) -> TurnRunner:
    """Put a worker together, as its process does."""
    sessions = build_command_handler(backend, store, "/turnlog/worker")
    kinds = BlueprintStore(backend.blobs)
    library = BlueprintFolders((*blueprints, *BLUEPRINT_FOLDERS, SHIPPED_BLUEPRINTS))
    gathering = build_prompt_inputs(backend, sessions, "worker")
    return TurnRunner(
        name="w1",
        sessions=sessions,
        blueprints=kinds,
        contexts=CallContextBuilder(
            sessions=sessions,
            blueprints=kinds,
            blobs=backend.blobs,
            library=library,
            prompt_inputs=gathering,
            default_model=named,
            tenants=TenantService(build_library_parts(backend, "/turnlog/worker")),
        ),
        tokens=backend.tokens,
        model=model,
        heartbeat=AttemptHeartbeat(sessions, backend.tokens, 10.0),
        outcomes=OutcomeRecorder(
            sessions=sessions,
            blobs=backend.blobs,
            pricing=pricing,
            jitter=lambda: 0.0,
        ),
        tracing=NO_TRACING,
        ack_wait=30.0,
    )


async def run_worker(
    backend: LogBackend, tenant: str, worker: TurnRunner, handled: asyncio.Queue[StoredMessage]
) -> None:
    """Handle the messages of turns as they come, each beside the others, as a worker does.

    One that the worker hands back does not come again.
    """

    async def handle(message: StoredMessage) -> None:
        await deliver_message(message, worker)
        handled.put_nowait(message)

    async with (
        asyncio.TaskGroup() as turns,
        aclosing(backend.log.stream_raw_events(tenant, 0, live=True)) as log,
    ):
        async for bulk in log:
            for raw in bulk:
                if raw.subject.endswith(f".{SessionOpened.leaf}"):
                    opened = list_tools_early(worker, raw.stored, raw.stream_sequence)
                    turns.create_task(opened)
                if raw.subject.endswith(QUEUE_SUBJECTS):
                    message = StoredMessage(raw.subject, raw.stored, raw.stream_sequence)
                    turns.create_task(handle(message))
