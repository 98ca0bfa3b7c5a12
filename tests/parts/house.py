"""Sessions, a worker and a fake model in memory: all that a turn needs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.parts.puppet import PuppetModel
from tests.parts.reproduction import KEPT
from turnlog.events.codec import read
from turnlog.events.envelope import Recorded
from turnlog.events.kinds import name_of
from turnlog.events.log.library import MemoryLibrary
from turnlog.events.log.memory import MemoryBlobs, MemoryLog, MemorySnapshots, MemoryTokens
from turnlog.events.turn import TurnReleased, TurnSubmitted
from turnlog.projections.blueprint.schema import Blueprint, Policies, reach
from turnlog.projections.session.commands import OpenSession, SubmitTurn
from turnlog.projections.session.state import Memo, SessionState
from turnlog.services.runtime.blueprints import BlueprintStore
from turnlog.services.runtime.gathering import Gathering
from turnlog.services.runtime.library import Library
from turnlog.services.runtime.segments import Segments
from turnlog.services.runtime.sessions import By, Done, Sessions
from turnlog.services.runtime.shelves import Shelves
from turnlog.services.runtime.snapshots import CheckedSnapshots
from turnlog.services.runtime.telemetry import Tracing, tracing
from turnlog.services.runtime.texts import TextReader
from turnlog.services.worker.answering import Answering
from turnlog.services.worker.context import Contexts
from turnlog.services.worker.delivery import Delivery, Verdict
from turnlog.services.worker.ending import Endings
from turnlog.services.worker.heartbeat import Heart
from turnlog.services.worker.tools.exchange import ToolServers
from turnlog.services.worker.tools.mcp_servers import McpServers

TENANT = "t"
BY = By("tester")
ACK_WAIT = 0.3


@dataclass
class SteppingClock:
    """A clock that advances one millisecond at each reading, and further on request."""

    time: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.time += timedelta(milliseconds=1)
        return self.time

    def pass_by(self, seconds: float) -> None:
        """Advance the clock."""
        self.time += timedelta(seconds=seconds)


class NoOlderCommands:
    """An index of older commands that is empty."""

    async def find(self, state: SessionState, key: str) -> Memo | None:
        """See `OlderCommands.find_command`."""
        del state, key
        return None


def blueprint(**policies: object) -> Blueprint:
    """Build a small blueprint without prompt files."""
    return Blueprint.model_validate(
        {
            "blueprint": "small",
            "version": 1,
            "layers": {"rules": {"text": "Be brief.", "keep": "always"}},
            "calls": {
                "reply": {
                    "messages": [
                        {"system": ["rules"]},
                        {"history": "recent"},
                        {"user": ["input"]},
                    ],
                    "budget": "window",
                }
            },
            "history": {"recent": {}},
            "budget": {
                "window": {
                    "tokens": 1000,
                    "ladder": [{"drop_oldest_pairs": {"history": "recent"}}],
                }
            },
            "policies": policies,
            "profiles": {"one": {"default": True, "call": "reply"}},
        }
    )


@dataclass
class House:
    """Everything a turn needs, in memory."""

    log: MemoryLog = field(default_factory=MemoryLog)
    blobs: MemoryBlobs = field(default_factory=MemoryBlobs)
    tokens: MemoryTokens = field(default_factory=MemoryTokens)
    clock: SteppingClock = field(default_factory=SteppingClock)
    model: PuppetModel = field(default_factory=PuppetModel)
    tracing: Tracing = field(default_factory=lambda: tracing("test", None))
    segments: MemoryLibrary = field(default_factory=MemoryLibrary)
    library: Library = field(default_factory=lambda: Library(()))
    """Where prompt files are read from."""
    servers: ToolServers = field(default_factory=McpServers)
    """The tool servers."""
    ids: int = 0

    def __post_init__(self) -> None:
        self.snapshots = MemorySnapshots()
        self.blueprints = BlueprintStore(self.blobs)
        self.sessions = self.sessions_of("/test/gateway")
        KEPT.keep(self.log, self.blobs)

    def new_id(self) -> str:
        """Return the next id of a counter."""
        self.ids += 1
        return f"id-{self.ids}"

    def sessions_of(self, source: str) -> Sessions:
        """Build the command handler of one process."""
        return Sessions(
            self.log,
            CheckedSnapshots(self.log, self.snapshots),
            TextReader(self.log, self.blobs),
            NoOlderCommands(),
            self.clock,
            self.new_id,
            source,
        )

    def worker(self, name: str = "w1") -> Answering:
        """Build a worker with its own command handler, as in another process."""
        sessions = self.sessions_of(f"/test/{name}")
        return Answering(
            name=name,
            sessions=sessions,
            blueprints=self.blueprints,
            contexts=self.contexts(sessions),
            tokens=self.tokens,
            model=self.model,
            heart=Heart(sessions, self.tokens, ACK_WAIT / 3),
            endings=Endings(sessions, self.tokens, self.blobs, self.model.prices, lambda: 0.0),
            tracing=self.tracing,
            ack_wait=ACK_WAIT,
            servers=self.servers,
        )

    def contexts(self, sessions: Sessions) -> Contexts:
        """Build what prepares the calls of one process."""
        shelves = Shelves(self.segments, self.blobs, self.clock, self.new_id, "/test/library")
        gathering = Gathering(self.log, sessions.texts, Segments(shelves, sessions.texts))
        return Contexts(
            sessions, self.blueprints, self.blobs, self.library, gathering, "puppet/one"
        )

    async def open(self, session: str = "s", **policies: object) -> Done:
        """Open a session with the small blueprint."""
        small = blueprint(**policies)
        ref = await self.blueprints.pin(TENANT, small)
        return await self.sessions.act(TENANT, session, OpenSession(ref, "one", reach(small)), BY)

    async def submit(
        self, text: str, session: str = "s", policies: Policies | None = None
    ) -> Recorded:
        """Submit a turn and return its event."""
        command = SubmitTurn(text, policies or Policies())
        done = await self.sessions.act(TENANT, session, command, BY)
        return done.events[-1]

    async def answer(self, event: Recorded, worker: Answering | None = None) -> Verdict:
        """Have a worker process a turn's event."""
        return await (worker or self.worker()).answer(delivery(event))

    async def answer_again(self, event: Recorded) -> Verdict:
        """Have another worker process the redelivery of a turn's event."""
        return await self.worker("w2").answer(delivery(event, redelivered=True))

    def names(self, session: str = "s") -> list[str]:
        """List the event names of a session in order."""
        return [name_of(event.envelope.type) for event in self.events(session)]

    def events(self, session: str = "s") -> Sequence[Recorded]:
        """List the events of a session."""
        places = self.log.sessions.get((TENANT, session), [])
        held = (self.log.stored[place - 1] for place in places)
        return [read(raw.stored, raw.stream_sequence) for raw in held if raw]

    async def recorded(self, kind: type, session: str = "s", number: int = 1) -> None:
        """Wait until a session has `number` events of a type."""
        async with aclosing(self.log.watch(TENANT, session)) as events:
            async for event in events:
                number -= isinstance(event.event, kind)
                if number == 0:
                    return

    async def heard(self, number: int, turn: int = 1, session: str = "s") -> None:
        """Wait until `number` token events of a turn have arrived."""
        async with self.tokens.watch(TENANT, session, turn) as events:
            async for _ in events:
                number -= 1
                if number == 0:
                    return

    async def state(self, session: str = "s") -> SessionState:
        """Load the state of a session."""
        return await self.sessions.load_open(TENANT, session)


def delivery(event: Recorded, *, redelivered: bool = False) -> Delivery:
    """Build the delivery of a turn's event."""
    assert isinstance(event.event, TurnSubmitted | TurnReleased)

    async def in_progress() -> None:
        await asyncio.sleep(0)

    return Delivery(
        tenant=event.tenant,
        session=event.session,
        turn=event.event.turn,
        stream_sequence=event.stream_sequence,
        redelivered=redelivered,
        traceparent=None,
        in_progress=in_progress,
    )
