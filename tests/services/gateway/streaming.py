"""A session whose events and tokens a test publishes itself, and a gateway that streams them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from tests.parts.house import BY, NoOlderCommands, SteppingClock, blueprint
from turnlog.events.call import Cost, Fault, Usage
from turnlog.events.errors import TurnlogError
from turnlog.events.log.library import MemoryLibrary
from turnlog.events.log.memory import MemoryBlobs, MemoryLog, MemorySnapshots, MemoryTokens
from turnlog.events.log.ports import Blobs, Log, Snapshots, TokenStream
from turnlog.events.nats.layout import Terms
from turnlog.events.nats.opening import opened
from turnlog.events.tokens import AttemptAlive, AttemptReset, Token
from turnlog.projections.blueprint.schema import Policies, reach
from turnlog.projections.session.commands import (
    Attempt,
    CancelTurn,
    ClaimTurn,
    CompleteTurn,
    EndAttempt,
    OpenSession,
    RedactReply,
    Spent,
    SubmitTurn,
)
from turnlog.projections.store.engine import open_store
from turnlog.projections.store.reach import Bell
from turnlog.services.gateway import events, streams
from turnlog.services.gateway.desk import Desk
from turnlog.services.gateway.problems import answer_request
from turnlog.services.runtime.blueprints import BlueprintStore
from turnlog.services.runtime.clock import new_id
from turnlog.services.runtime.durability import Durability
from turnlog.services.runtime.gathering import Gathering
from turnlog.services.runtime.library import Library
from turnlog.services.runtime.segments import Segments
from turnlog.services.runtime.sessions import Sessions
from turnlog.services.runtime.settings import GatewaySettings
from turnlog.services.runtime.shelves import Shelves
from turnlog.services.runtime.snapshots import CheckedSnapshots
from turnlog.services.runtime.telemetry import tracing
from turnlog.services.runtime.texts import TextReader

NARROW = 16 * 1024
"""The buffer size in bytes of a narrow connection, on either side."""
QUEUE = Policies(second_submit="queue")
UNKNOWN = Spent(Usage(known="unknown"), Cost(price="unknown", table="none"))


@dataclass
class Stage:
    """One session on any log."""

    log: Log
    blobs: Blobs
    snapshots: Snapshots
    tokens: TokenStream
    tenant: str
    session: str = "s"
    clock: SteppingClock = field(default_factory=SteppingClock)
    said: dict[int, str] = field(default_factory=dict[int, str])

    def sessions(self) -> Sessions:
        """Build the command handler of another process."""
        snapshots = CheckedSnapshots(self.log, self.snapshots)
        texts = TextReader(self.log, self.blobs)
        older = NoOlderCommands()
        return Sessions(self.log, snapshots, texts, older, self.clock, new_id, "/test")

    def desk(self, keep_alive: float = 15.0, reader_seconds: float = 20.0) -> Desk:
        """Build the dependencies of another gateway."""
        settings = GatewaySettings(
            tenant=self.tenant, keep_alive=keep_alive, reader_seconds=reader_seconds
        )
        blueprints = BlueprintStore(self.blobs)
        shelves = Shelves(MemoryLibrary(), self.blobs, self.clock, new_id, "/test")
        sessions = self.sessions()
        return Desk(
            settings=settings,
            log=self.log,
            tokens=self.tokens,
            sessions=sessions,
            shelves=shelves,
            gathering=Gathering(self.log, sessions.texts, Segments(shelves, sessions.texts)),
            blueprints=blueprints,
            library=Library(()),
            store=open_store("sqlite:///:memory:"),
            bell=Bell(),
            tracing=tracing("test", None),
            durability=Durability("relaxed", checked=False),
        )

    async def open(self) -> None:
        small = blueprint()
        ref = await BlueprintStore(self.blobs).pin(self.tenant, small)
        await self.act(OpenSession(ref, "one", reach(small)))

    async def act(self, command: object) -> None:
        """Handle a command as another process."""
        await self.sessions().act(self.tenant, self.session, command, BY)  # type: ignore[arg-type]

    async def submit(self, text: str = "Hi") -> None:
        """Submit a turn; it is queued while another turn is open."""
        await self.act(SubmitTurn(text, QUEUE))

    async def claim(self, turn: int = 1) -> Attempt:
        """Claim a turn for a worker with the next attempt."""
        await self.act(ClaimTurn(turn, "w", QUEUE, self.said.pop(turn, "")))
        state = await self.sessions().load_open(self.tenant, self.session)
        assert state.open
        attempt = Attempt(turn, f"{turn}.1", state.open.attempt)
        sign = AttemptAlive if attempt.attempt == 1 else AttemptReset
        await self._publish(attempt, sign(call=attempt.call, attempt=attempt.attempt))
        return attempt

    async def say(self, attempt: Attempt, text: str) -> None:
        """Publish a piece of the reply."""
        before = self.said.get(attempt.turn, "")
        self.said[attempt.turn] = before + text
        token = Token(call=attempt.call, attempt=attempt.attempt, offset=len(before), text=text)
        await self._publish(attempt, token)

    async def complete(self, attempt: Attempt) -> str:
        """Complete the turn with the published text and return the text."""
        text = self.said.get(attempt.turn, "")
        await self.act(CompleteTurn(attempt, text, "stop", UNKNOWN))
        return text

    async def fail(self, attempt: Attempt, code: str = "server_error") -> None:
        """Fail the turn with the text published so far."""
        fault = Fault(code=code, detail="it broke", retryable=True)
        partial = self.said.get(attempt.turn, "")
        await self.act(EndAttempt(attempt, "failed", UNKNOWN, "fail", fault, partial))

    async def cancel(self, turn: int = 1) -> None:
        await self.act(CancelTurn(turn))

    async def redact(self, turn: int = 1) -> None:
        await self.act(RedactReply(turn, "it names a person", "operator", "(withheld)"))

    async def _publish(self, attempt: Attempt, event: AttemptAlive | AttemptReset | Token) -> None:
        await self.tokens.publish(self.tenant, self.session, attempt.turn, event)


@asynccontextmanager
async def staged(tenant: str, nats_url: str | None) -> AsyncGenerator[Stage]:
    """Open a session on a real server's log, or on one in memory when `nats_url` is None."""
    if nats_url is None:
        parts = MemoryLog(), MemoryBlobs(), MemorySnapshots(), MemoryTokens()
        stage = Stage(*parts, tenant)
        await stage.open()
        yield stage
        return
    async with opened(nats_url, Terms()) as on:
        stage = Stage(on.log, on.blobs, on.snapshots, on.tokens, tenant)
        await stage.open()
        yield stage


def gateway(desk: Desk) -> FastAPI:
    """Build a gateway that has only the stream routes."""
    app = FastAPI()
    app.state.desk = desk
    app.include_router(streams.router)
    app.include_router(events.router)
    app.add_exception_handler(TurnlogError, answer_request)
    return app


@asynccontextmanager
async def served(app: ASGIApp, *, narrow: bool = False) -> AsyncGenerator[int]:
    """Serve an application on a free port and yield the port; `narrow` sockets buffer little."""
    listening = socket.create_server(("127.0.0.1", 0))
    if narrow:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, NARROW)
    config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield int(listening.getsockname()[1])
    finally:
        server.should_exit = True
        await serving
