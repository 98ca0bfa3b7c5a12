"""A gateway over real HTTP with a log, read models, a projector and a worker with a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx

from tests.parts.house import delivery
from tests.parts.puppet import PuppetModel
from turnlog.events.codec import decode_event
from turnlog.events.jetstream.jetstream_client import open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.model.turn_events import TurnReleased, TurnSubmitted
from turnlog.events.store.memory_log import (
    MemoryBlobStore,
    MemoryLibraryLog,
    MemoryLog,
    MemorySnapshotStore,
    MemoryTokenStream,
)
from turnlog.events.store.ports import BlobStore, EventLog, LibraryLog, SnapshotStore, TokenStream
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.projections.store.read.row_lookups import CommandLookup
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS, BlueprintFolders
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.blueprints.model_prices import PriceTable
from turnlog.services.gateway.dependencies import GatewayDependencies
from turnlog.services.gateway.main import serve_app
from turnlog.services.platform.clock import create_id, read_clock
from turnlog.services.platform.durability import Durability
from turnlog.services.platform.process_settings import GatewaySettings, ProjectorSettings
from turnlog.services.platform.telemetry import Tracing, create_tracing
from turnlog.services.projector.main import build_projector
from turnlog.services.projector.segment_projector import SegmentProjector
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.prompt_inputs import PromptInputLoader, SegmentFetcher
from turnlog.services.sessions.segment_service import SegmentService
from turnlog.services.sessions.session_snapshots import CheckedSnapshotStore
from turnlog.services.sessions.text_cache import TextReader
from turnlog.services.worker.attempts.attempt_outcomes import OutcomeRecorder
from turnlog.services.worker.attempts.call_context import CallContextBuilder
from turnlog.services.worker.heartbeat import AttemptHeartbeat
from turnlog.services.worker.model.model_types import LanguageModel
from turnlog.services.worker.turn_runner import TurnRunner

SILENT = create_tracing("test", None)
FOLDERS = (Path(__file__).parent / "blueprints", Path(__file__).parents[2] / "parts/blueprints")
MODEL = "puppet/one"
WAITED = (TurnSubmitted.leaf, TurnReleased.leaf)
"""The subject endings that workers subscribe to."""


class Holding(Protocol):
    """A log with its blobs, snapshots and tokens."""

    @property
    def log(self) -> EventLog: ...
    @property
    def library(self) -> LibraryLog: ...
    @property
    def blobs(self) -> BlobStore: ...
    @property
    def snapshots(self) -> SnapshotStore: ...
    @property
    def tokens(self) -> TokenStream: ...


@dataclass(frozen=True, slots=True)
class InMemory:
    """A backend in memory; it outlives the gateways that use it."""

    log: MemoryLog = field(default_factory=MemoryLog)
    library: MemoryLibraryLog = field(default_factory=MemoryLibraryLog)
    blobs: MemoryBlobStore = field(default_factory=MemoryBlobStore)
    snapshots: MemorySnapshotStore = field(default_factory=MemorySnapshotStore)
    tokens: MemoryTokenStream = field(default_factory=MemoryTokenStream)


@asynccontextmanager
async def holding(nats_url: str | None) -> AsyncGenerator[Holding]:
    """Open a backend on a nats-server, or one in memory when `nats_url` is None."""
    if nats_url is None:
        yield InMemory()
        return
    async with open_client(nats_url, StreamOptions()) as jetstream:
        yield jetstream


def desk_on(
    held: Holding,
    store: ReadModelStore,
    bell: ProjectionSignal,
    settings: GatewaySettings,
    traces: Tracing = SILENT,
) -> GatewayDependencies:
    """Put a gateway's desk together, as its process does."""
    sessions = sessions_on(held, store, "/turnlog/gateway")
    return GatewayDependencies(
        settings=settings,
        log=held.log,
        tokens=held.tokens,
        command_handler=sessions,
        segment_service=shelves_on(held, "gateway"),
        prompt_inputs=gathering_on(held, sessions, "gateway"),
        blueprints=BlueprintStore(held.blobs),
        blueprint_folders=BlueprintFolders((*settings.blueprints, *FOLDERS, SHIPPED_BLUEPRINTS)),
        store=store,
        projection_signal=bell,
        tracing=traces,
        durability=Durability("fsync-acked", checked=True),
    )


def sessions_on(held: Holding, store: ReadModelStore, source: str) -> CommandHandler:
    """Make the sessions of one process."""
    snapshots = CheckedSnapshotStore(held.log, held.snapshots)
    texts = TextReader(held.log, held.blobs)
    return CommandHandler(
        held.log, snapshots, texts, CommandLookup(store), read_clock, create_id, source
    )


def shelves_on(held: Holding, role: str) -> SegmentService:
    """Make one process's view of the library."""
    return SegmentService(held.library, held.blobs, read_clock, create_id, f"/turnlog/{role}")


def gathering_on(held: Holding, sessions: CommandHandler, role: str) -> PromptInputLoader:
    """Make what gives calls of one process their inputs and segments."""
    segments = SegmentFetcher(shelves_on(held, role), sessions.texts)
    return PromptInputLoader(held.log, sessions.texts, segments)


@dataclass
class Stand:
    """A running gateway with the backend, the store and the model behind it."""

    held: Holding
    tenant: str
    store: ReadModelStore
    bell: ProjectionSignal
    settings: GatewaySettings
    address: str
    http: httpx.AsyncClient
    desk: GatewayDependencies
    model: PuppetModel

    async def open(self, blueprint: str = "clerk", **form: object) -> str:
        """Open a session and return its id."""
        attributes = {"desk": "d-1"} if blueprint == "clerk" else {}
        body = {"blueprint": blueprint, "attributes": attributes} | form
        answer = await self.http.post("/v1/sessions", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["session"])

    async def submit(self, session: str, text: str = "Hi", **form: object) -> dict[str, Any]:
        """Submit a turn and return the response body."""
        answer = await self.http.post(f"/v1/sessions/{session}/turns", json={"text": text} | form)
        assert answer.status_code == 202, answer.text
        return dict(answer.json())

    async def say(self, session: str, text: str, reply: str) -> dict[str, Any]:
        """Submit a turn, let the model give `reply`, and return the settled turn."""
        self.model.scripts.append([reply])
        url = f"/v1/sessions/{session}/turns?wait=30"
        answer = await self.http.post(url, json={"text": text})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def get(self, path: str, **query: Any) -> Any:  # noqa: ANN401 - JSON of any shape
        answer = await self.http.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def stored(self) -> int:
        """Count the tenant's events on the log."""
        answer = await self.http.get("/v1/events", headers={"Accept": "application/x-ndjson"})
        return len(answer.content.splitlines())

    @asynccontextmanager
    async def another_gateway(self, **settings: object) -> AsyncGenerator[Stand]:
        """Start a second gateway on the same log, as after a restart."""
        changed = self.settings.model_copy(update=settings)
        async with fronted(self.held, self.store, self.bell, changed, self.model) as stand:
            yield stand


@asynccontextmanager
async def standing(
    held: Holding,
    tenant: str,
    folder: Path,
    *,
    working: bool = True,
    traces: Tracing = SILENT,
    blueprints: tuple[Path, ...] = (),
) -> AsyncGenerator[Stand]:
    """Run a gateway, a projector and a worker on a log."""
    bell, model = ProjectionSignal(), PuppetModel()
    store = open_store(f"sqlite:///{folder / 'rows.db'}")
    await prepare_schema(store)
    projector = build_projector(
        ProjectorSettings(tenant=tenant), log=held.log, store=store, signal=bell, tracing=SILENT
    )
    settings = GatewaySettings(
        tenant=tenant, http="127.0.0.1:0", model=MODEL, grace=2, blueprints=blueprints
    )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        library = SegmentProjector(held.library, held.blobs, store, tenant, bell)
        running = [asyncio.create_task(projector.run()), asyncio.create_task(library.run())]
        if working:
            worker = worker_on(held, store, model, model.prices)
            running.append(asyncio.create_task(answering(held, tenant, worker)))
        stack.push_async_callback(ended, *running)
        yield await stack.enter_async_context(fronted(held, store, bell, settings, model, traces))


@asynccontextmanager
async def fronted(
    held: Holding,
    store: ReadModelStore,
    bell: ProjectionSignal,
    settings: GatewaySettings,
    model: PuppetModel,
    traces: Tracing = SILENT,
) -> AsyncGenerator[Stand]:
    """Start one gateway."""
    desk = desk_on(held, store, bell, settings, traces)
    # The client ends last, so that it hears what a gateway says as it ends
    async with httpx.AsyncClient(timeout=60) as http, serve_app(desk) as address:
        http.base_url = httpx.URL(address)
        yield Stand(held, settings.tenant, store, bell, settings, address, http, desk, model)


async def ended(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks until all have ended; a task gets 5 s to close its resources."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=5)


def worker_on(
    held: Holding,
    store: ReadModelStore,
    model: LanguageModel,
    prices: Callable[[], Awaitable[PriceTable]],
    *,
    named: str = MODEL,
    blueprints: tuple[Path, ...] = (),
) -> TurnRunner:
    """Put a worker together, as its process does."""
    sessions = sessions_on(held, store, "/turnlog/worker")
    kinds = BlueprintStore(held.blobs)
    library = BlueprintFolders((*blueprints, *FOLDERS, SHIPPED_BLUEPRINTS))
    gathering = gathering_on(held, sessions, "worker")
    return TurnRunner(
        name="w1",
        sessions=sessions,
        blueprints=kinds,
        contexts=CallContextBuilder(sessions, kinds, held.blobs, library, gathering, named),
        tokens=held.tokens,
        model=model,
        heartbeat=AttemptHeartbeat(sessions, held.tokens, 10.0),
        outcomes=OutcomeRecorder(sessions, held.tokens, held.blobs, prices, lambda: 0.0),
        tracing=SILENT,
        ack_wait=30.0,
    )


async def answering(held: Holding, tenant: str, worker: TurnRunner) -> None:
    """Answer turns as they come, each beside the others, as a worker does."""
    async with (
        asyncio.TaskGroup() as turns,
        aclosing(held.log.stream_raw_events(tenant, 0, live=True)) as log,
    ):
        async for bulk in log:
            for raw in bulk:
                if raw.subject.endswith(WAITED):
                    event = decode_event(raw.stored, raw.stream_sequence)
                    turns.create_task(worker.run_turn(delivery(event)))
