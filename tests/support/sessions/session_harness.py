"""Sessions, a worker and a fake model in memory: all that a turn needs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from pydantic import JsonValue

from tests.support.sessions.flat_pricing import create_flat_pricing
from tests.support.sessions.puppet_model import PuppetModel
from tests.support.sessions.reproduction_checks import MEMORY_LOGS
from turnlog.events.async_tasks import stream_watch
from turnlog.events.codec import decode_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.child_events import ChildSettled
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.registry import ClaimableEvent, format_event_name
from turnlog.events.store.memory_log import (
    MemoryBlobStore,
    MemoryLog,
    MemoryMediaStore,
    MemorySnapshotStore,
    MemoryTokenStream,
)
from turnlog.events.subjects import LIBRARY_HISTORY
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, compute_history_reach
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.knowledge.search_port import KnowledgeSearch
from turnlog.projections.session.commands import OpenSession, SubmitTurn
from turnlog.projections.session.state import IdempotencyRecord, SessionState
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.caches.media_cache import MediaReader
from turnlog.services.caches.session_snapshots import CheckedSnapshotStore
from turnlog.services.caches.text_cache import TextReader
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.command_handling.tenant_histories import LibraryParts
from turnlog.services.model_facts.model_dialects import ModelDialects
from turnlog.services.platform.telemetry.traces import Tracing, create_tracing
from turnlog.services.quotas.quota_reservations import TurnQuotas
from turnlog.services.quotas.quota_service import QuotaService
from turnlog.services.segments.segment_service import SegmentService
from turnlog.services.sessions.command_handler import CommandHandler, CommandOutcome
from turnlog.services.sessions.prompt_inputs import PromptInputLoader, SegmentFetcher
from turnlog.services.worker.attempts.attempt_heartbeats import AttemptHeartbeat
from turnlog.services.worker.attempts.attempt_outcomes import OutcomeRecorder
from turnlog.services.worker.attempts.call_context import CallContextBuilder
from turnlog.services.worker.attempts.retrieval_step import EmptyKnowledge
from turnlog.services.worker.tools.mcp_servers import McpToolServers
from turnlog.services.worker.tools.tool_server_types import ToolServers
from turnlog.services.worker.turn_delivery import DeliveryVerdict, TurnDelivery
from turnlog.services.worker.turn_runner import TurnRunner

TENANT = "t"

TESTER = CommandMetadata("tester")

ACK_WAIT = 0.3


@dataclass
class SteppingClock:
    """A clock that advances one millisecond at each reading, and further on request."""

    time: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.time += timedelta(milliseconds=1)
        return self.time

    def advance_time(self, seconds: float) -> None:
        """Advance the clock."""
        self.time += timedelta(seconds=seconds)


class EmptyCommandIndex:
    """An index of older commands that is empty."""

    async def find_command(self, state: SessionState, key: str) -> IdempotencyRecord | None:
        """See `OlderCommands.find`."""
        del state, key
        return None


def build_small_blueprint(**policies: object) -> Blueprint:
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


@dataclass(repr=False, kw_only=True)
class SessionHarness:
    """Everything a turn needs, in memory."""

    log: MemoryLog = field(default_factory=MemoryLog)
    blobs: MemoryBlobStore = field(default_factory=MemoryBlobStore)
    media: MemoryMediaStore = field(default_factory=MemoryMediaStore)
    tokens: MemoryTokenStream = field(default_factory=MemoryTokenStream)
    clock: SteppingClock = field(default_factory=SteppingClock)
    model: PuppetModel = field(default_factory=PuppetModel)
    tracing: Tracing = field(default_factory=lambda: create_tracing("test", None))
    segments: MemoryLog = field(default_factory=lambda: MemoryLog(kind=LIBRARY_HISTORY))
    library: BlueprintFolders = field(default_factory=lambda: BlueprintFolders(()))
    """Where prompt files are."""
    servers: ToolServers = field(default_factory=McpToolServers)
    """Who has tools."""
    knowledge: KnowledgeSearch = field(default_factory=EmptyKnowledge)
    """What is known."""
    dialects: ModelDialects = field(default_factory=ModelDialects)
    """What the servers of models take."""
    ids: int = 0

    def __post_init__(self) -> None:
        self.snapshots = MemorySnapshotStore()
        self.blueprints = BlueprintStore(self.blobs)
        self.sessions = self.build_command_handler("/test/gateway")
        MEMORY_LOGS.register_log(self.log, self.blobs)

    def create_id(self) -> str:
        """Return the next id of a counter."""
        self.ids += 1
        return f"id-{self.ids}"

    def build_command_handler(self, source: str) -> CommandHandler:
        """Make the sessions of one process."""
        return CommandHandler(
            log=self.log,
            snapshots=CheckedSnapshotStore(self.log, self.snapshots),
            texts=TextReader(log=self.log, blobs=self.blobs, media=MediaReader(self.media)),
            older_commands=EmptyCommandIndex(),
            clock=self.clock,
            create_id=self.create_id,
            source=source,
            quotas=self.build_quotas(source),
            confirm_seconds=0,
        )

    def build_quotas(self, source: str) -> TurnQuotas:
        """Make the quotas of one process."""
        return TurnQuotas(QuotaService(self.build_library_parts(source)), self.log)

    def build_library_parts(self, source: str) -> LibraryParts:
        """Make what the histories of the library are written with by one process."""
        return LibraryParts(
            log=self.segments,
            blobs=self.blobs,
            clock=self.clock,
            create_id=self.create_id,
            source=source,
        )

    def build_worker(self, name: str = "w1") -> TurnRunner:
        """Make a worker with sessions of its own, as another process has."""
        sessions = self.build_command_handler(f"/test/{name}")
        return TurnRunner(
            name=name,
            sessions=sessions,
            blueprints=self.blueprints,
            contexts=self.build_contexts(sessions),
            tokens=self.tokens,
            model=self.model,
            heartbeat=AttemptHeartbeat(sessions, self.tokens, ACK_WAIT / 3),
            outcomes=OutcomeRecorder(
                sessions=sessions,
                blobs=self.blobs,
                pricing=create_flat_pricing("puppet-1"),
                jitter=lambda: 0.0,
            ),
            tracing=self.tracing,
            ack_wait=ACK_WAIT,
            servers=self.servers,
            knowledge=self.knowledge,
        )

    def build_contexts(self, sessions: CommandHandler) -> CallContextBuilder:
        """Make what prepares the calls of one process."""
        segment_service = SegmentService(self.build_library_parts("/test/library"))
        fetcher = SegmentFetcher(segment_service, sessions.texts)
        gathering = PromptInputLoader(sessions, fetcher, dialects=self.dialects)
        return CallContextBuilder(
            sessions=sessions,
            blueprints=self.blueprints,
            blobs=self.blobs,
            library=self.library,
            prompt_inputs=gathering,
            default_model="puppet/one",
        )

    async def open_session(self, session: str = "s", **policies: object) -> CommandOutcome:
        """Open a session by the small blueprint."""
        small = build_small_blueprint(**policies)
        ref = await self.blueprints.store_blueprint(TENANT, small)
        return await self.sessions.handle(
            TENANT,
            session,
            OpenSession(blueprint=ref, profile="one", reach=compute_history_reach(small)),
            TESTER,
        )

    async def submit_turn(
        self,
        text: str,
        session: str = "s",
        policies: Policies | None = None,
        inputs: Mapping[str, JsonValue] | None = None,
        parts: tuple[MediaPart, ...] = (),
    ) -> RecordedEvent:
        """Submit a turn; gives its event."""
        command = SubmitTurn(
            text=text, policies=policies or Policies(), inputs={**(inputs or {})}, parts=parts
        )
        done = await self.sessions.handle(TENANT, session, command, TESTER)
        return done.events[-1]

    async def run_turn(
        self, event: RecordedEvent, worker: TurnRunner | None = None
    ) -> DeliveryVerdict:
        """Let a worker take a turn's event."""
        return await (worker or self.build_worker()).run_turn(build_delivery(event))

    async def run_redelivered_turn(self, event: RecordedEvent) -> DeliveryVerdict:
        """Let another worker take the redelivery of a turn's event."""
        return await self.build_worker("w2").run_turn(build_delivery(event, redelivered=True))

    def list_event_names(self, session: str = "s") -> list[str]:
        """Name the events of a session in order."""
        return [format_event_name(event.envelope.type) for event in self.list_events(session)]

    def list_events(self, session: str = "s") -> Sequence[RecordedEvent]:
        """Give the events of a session."""
        places = self.log.sessions.get((TENANT, session), [])
        raws = (self.log.stored[place - 1] for place in places)
        return [decode_event(raw.stored, raw.stream_sequence) for raw in raws if raw]

    async def wait_for_event(self, kind: type, session: str = "s", number: int = 1) -> None:
        """Wait until a session holds so many events of a kind."""
        async with aclosing(self.log.watch_session(TENANT, session)) as events:
            async for event in events:
                number -= isinstance(event.event, kind)
                if number == 0:
                    return

    async def wait_for_tokens(self, number: int, turn: int = 1, session: str = "s") -> None:
        """Wait until so many token events of a turn have come."""
        wake = asyncio.Event()
        async with (
            self.tokens.open_turn_watch(TENANT, session, turn, wake) as watch,
            aclosing(stream_watch(wake, watch)) as events,
        ):
            async for _ in events:
                number -= 1
                if number == 0:
                    return

    async def load_state(self, session: str = "s") -> SessionState:
        """Give the state of a session."""
        return await self.sessions.require_state(TENANT, session)


def build_delivery(event: RecordedEvent, *, redelivered: bool = False) -> TurnDelivery:
    """Make the first delivery of a turn's event, or one after which nobody is waited for."""
    assert isinstance(event.event, ClaimableEvent)

    return TurnDelivery(
        tenant=event.tenant,
        session=event.session,
        turn=event.event.turn,
        stream_sequence=event.stream_sequence,
        deliveries=3 if redelivered else 1,
        traceparent=None,
        settled_child=event.event if isinstance(event.event, ChildSettled) else None,
    )
