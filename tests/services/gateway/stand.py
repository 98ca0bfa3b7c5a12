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
from turnlog.events.codec import read
from turnlog.events.log.library import LibraryLog, MemoryLibrary
from turnlog.events.log.memory import MemoryBlobs, MemoryLog, MemorySnapshots, MemoryTokens
from turnlog.events.log.ports import Blobs, Log, Snapshots, TokenStream
from turnlog.events.nats.layout import Terms
from turnlog.events.nats.opening import opened
from turnlog.events.turn import TurnReleased, TurnSubmitted
from turnlog.projections.store.commands import FoldedCommands
from turnlog.projections.store.engine import Store, open_store
from turnlog.projections.store.reach import Bell
from turnlog.projections.store.schema import prepare
from turnlog.services.gateway.desk import Desk
from turnlog.services.gateway.serving import serving
from turnlog.services.projector.app import build as build_projector
from turnlog.services.projector.library import LibraryProjector
from turnlog.services.runtime.blueprints import BlueprintStore
from turnlog.services.runtime.clock import new_id, now
from turnlog.services.runtime.durability import Durability
from turnlog.services.runtime.gathering import Gathering
from turnlog.services.runtime.library import SHIPPED, Library
from turnlog.services.runtime.prices import PriceTable
from turnlog.services.runtime.segments import Segments
from turnlog.services.runtime.sessions import Sessions
from turnlog.services.runtime.settings import GatewaySettings, ProjectorSettings
from turnlog.services.runtime.shelves import Shelves
from turnlog.services.runtime.snapshots import CheckedSnapshots
from turnlog.services.runtime.telemetry import Tracing, tracing
from turnlog.services.runtime.texts import TextReader
from turnlog.services.worker.answering import Answering
from turnlog.services.worker.context import Contexts
from turnlog.services.worker.ending import Endings
from turnlog.services.worker.heartbeat import Heart
from turnlog.services.worker.model.exchange import Model

SILENT = tracing("test", None)
FOLDERS = (Path(__file__).parent / "blueprints", Path(__file__).parents[2] / "parts/blueprints")
MODEL = "puppet/one"
WAITED = (TurnSubmitted.leaf, TurnReleased.leaf)
"""The subject endings that workers subscribe to."""


class Holding(Protocol):
    """A log with its blobs, snapshots and tokens."""

    @property
    def log(self) -> Log: ...
    @property
    def library(self) -> LibraryLog: ...
    @property
    def blobs(self) -> Blobs: ...
    @property
    def snapshots(self) -> Snapshots: ...
    @property
    def tokens(self) -> TokenStream: ...


@dataclass(frozen=True, slots=True)
class InMemory:
    """A backend in memory; it outlives the gateways that use it."""

    log: MemoryLog = field(default_factory=MemoryLog)
    library: MemoryLibrary = field(default_factory=MemoryLibrary)
    blobs: MemoryBlobs = field(default_factory=MemoryBlobs)
    snapshots: MemorySnapshots = field(default_factory=MemorySnapshots)
    tokens: MemoryTokens = field(default_factory=MemoryTokens)


@asynccontextmanager
async def holding(nats_url: str | None) -> AsyncGenerator[Holding]:
    """Open a backend on a nats-server, or one in memory when `nats_url` is None."""
    if nats_url is None:
        yield InMemory()
        return
    async with opened(nats_url, Terms()) as jetstream:
        yield jetstream


def desk_on(
    held: Holding, store: Store, bell: Bell, settings: GatewaySettings, traces: Tracing = SILENT
) -> Desk:
    """Build a gateway's dependencies as its process does."""
    sessions = sessions_on(held, store, "/turnlog/gateway")
    return Desk(
        settings=settings,
        log=held.log,
        tokens=held.tokens,
        sessions=sessions,
        shelves=shelves_on(held, "gateway"),
        gathering=gathering_on(held, sessions, "gateway"),
        blueprints=BlueprintStore(held.blobs),
        library=Library((*settings.blueprints, *FOLDERS, SHIPPED)),
        store=store,
        bell=bell,
        tracing=traces,
        durability=Durability("fsync-acked", checked=True),
    )


def sessions_on(held: Holding, store: Store, source: str) -> Sessions:
    """Build the command handler of one process."""
    snapshots = CheckedSnapshots(held.log, held.snapshots)
    texts = TextReader(held.log, held.blobs)
    return Sessions(held.log, snapshots, texts, FoldedCommands(store), now, new_id, source)


def shelves_on(held: Holding, role: str) -> Shelves:
    """Build the segment service of one process."""
    return Shelves(held.library, held.blobs, now, new_id, f"/turnlog/{role}")


def gathering_on(held: Holding, sessions: Sessions, role: str) -> Gathering:
    """Build the prompt input loader of one process."""
    segments = Segments(shelves_on(held, role), sessions.texts)
    return Gathering(held.log, sessions.texts, segments)


@dataclass
class Stand:
    """A running gateway with the backend, the store and the model behind it."""

    held: Holding
    tenant: str
    store: Store
    bell: Bell
    settings: GatewaySettings
    address: str
    http: httpx.AsyncClient
    desk: Desk
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
    """Run a gateway, a projector and, unless `working` is false, a worker on a log."""
    bell, model = Bell(), PuppetModel()
    store = open_store(f"sqlite:///{folder / 'rows.db'}")
    await prepare(store)
    projector = build_projector(
        ProjectorSettings(tenant=tenant), log=held.log, store=store, bell=bell, tracing=SILENT
    )
    settings = GatewaySettings(
        tenant=tenant, http="127.0.0.1:0", model=MODEL, grace=2, blueprints=blueprints
    )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        library = LibraryProjector(held.library, held.blobs, store, tenant, bell)
        running = [asyncio.create_task(projector.run()), asyncio.create_task(library.run())]
        if working:
            worker = worker_on(held, store, model, model.prices)
            running.append(asyncio.create_task(answering(held, tenant, worker)))
        stack.push_async_callback(ended, *running)
        yield await stack.enter_async_context(fronted(held, store, bell, settings, model, traces))


@asynccontextmanager
async def fronted(
    held: Holding,
    store: Store,
    bell: Bell,
    settings: GatewaySettings,
    model: PuppetModel,
    traces: Tracing = SILENT,
) -> AsyncGenerator[Stand]:
    """Start one gateway."""
    desk = desk_on(held, store, bell, settings, traces)
    # Close the client last, so that it receives what a stopping gateway still sends.
    async with httpx.AsyncClient(timeout=60) as http, serving(desk) as address:
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
    store: Store,
    model: Model,
    prices: Callable[[], Awaitable[PriceTable]],
    *,
    named: str = MODEL,
    blueprints: tuple[Path, ...] = (),
) -> Answering:
    """Build a worker as its process does."""
    sessions = sessions_on(held, store, "/turnlog/worker")
    kinds = BlueprintStore(held.blobs)
    library = Library((*blueprints, *FOLDERS, SHIPPED))
    gathering = gathering_on(held, sessions, "worker")
    return Answering(
        name="w1",
        sessions=sessions,
        blueprints=kinds,
        contexts=Contexts(sessions, kinds, held.blobs, library, gathering, named),
        tokens=held.tokens,
        model=model,
        heart=Heart(sessions, held.tokens, 10.0),
        endings=Endings(sessions, held.tokens, held.blobs, prices, lambda: 0.0),
        tracing=SILENT,
        ack_wait=30.0,
    )


async def answering(held: Holding, tenant: str, worker: Answering) -> None:
    """Run turns concurrently as they arrive, as a worker does."""
    async with asyncio.TaskGroup() as turns, aclosing(held.log.follow(tenant, 0, live=True)) as log:
        async for bulk in log:
            for raw in bulk:
                if raw.subject.endswith(WAITED):
                    event = read(raw.stored, raw.stream_sequence)
                    turns.create_task(worker.answer(delivery(event)))
