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

from tests.support.knowledge.memory_search import MemorySearch
from tests.support.sessions.session_harness import (
    TESTER,
    EmptyCommandIndex,
    SteppingClock,
    build_small_blueprint,
)
from turnlog.events.errors import TurnlogError
from turnlog.events.jetstream.jetstream_client import open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.model.attempt_figures import AttemptCost, AttemptUsage, TokenUsage
from turnlog.events.model.call_events import AttemptFault
from turnlog.events.store.memory_log import (
    MemoryBlobStore,
    MemoryLog,
    MemoryMediaStore,
    MemorySnapshotStore,
    MemoryTokenStream,
)
from turnlog.events.store.ports import BlobStore, EventLog, SnapshotStore, TokenStream
from turnlog.events.subjects import ALERT_HISTORY, LIBRARY_HISTORY, READ_HISTORY
from turnlog.events.tokens import AttemptAlive, AttemptReset, Token
from turnlog.projections.blueprint.schema.blueprint_model import compute_history_reach
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.session.commands import (
    AttemptRef,
    CancelTurn,
    ClaimTurn,
    CompleteTurn,
    EndAttempt,
    OpenSession,
    SubmitTurn,
)
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.projections.store.engine import open_store
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.services.alerts.alert_service import AlertService
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.caches.media_cache import MediaReader
from turnlog.services.caches.session_snapshots import CheckedSnapshotStore
from turnlog.services.caches.text_cache import TextReader
from turnlog.services.command_handling.tenant_histories import LibraryParts
from turnlog.services.gateway.dependencies import GatewayDependencies, build_dependencies
from turnlog.services.gateway.routes import event_routes, turn_routes
from turnlog.services.http.problem_details import handle_error
from turnlog.services.http.request_tenant import get_principal
from turnlog.services.identity.access_key_service import AccessKeyService
from turnlog.services.identity.principals import Principal
from turnlog.services.identity.tenant_service import TenantService
from turnlog.services.knowledge.knowledge_service import KnowledgeService
from turnlog.services.overrides.override_service import OverrideService
from turnlog.services.platform.clock import create_id
from turnlog.services.platform.durability import Durability
from turnlog.services.platform.process_settings import GatewaySettings
from turnlog.services.platform.telemetry.traces import create_tracing
from turnlog.services.quotas.media_limit_service import MediaLimitService
from turnlog.services.quotas.quota_reservations import TurnQuotas
from turnlog.services.quotas.quota_service import QuotaService
from turnlog.services.retention.retention_service import RetentionService
from turnlog.services.segments.segment_service import SegmentService
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.prompt_inputs import PromptInputLoader, SegmentFetcher
from turnlog.services.use_cases.use_case_composition import UseCaseParts
from turnlog.services.webhooks.webhook_service import WebhookService

NARROW_BUFFER_BYTES = 16 * 1024
"""The buffer size in bytes of a narrow connection, on either side."""

QUEUE_POLICY = Policies(second_submit="queue")

UNKNOWN_USAGE = AttemptUsage(
    usage=TokenUsage(known="unknown"), cost=AttemptCost(price="unknown", table="none")
)


@dataclass(repr=False, kw_only=True)
class StreamedSession:
    """One session on any log."""

    log: EventLog
    blobs: BlobStore
    snapshots: SnapshotStore
    tokens: TokenStream
    tenant: str
    session: str = "s"
    clock: SteppingClock = field(default_factory=SteppingClock)
    partial_replies: dict[int, str] = field(default_factory=dict[int, str])

    def build_command_handler(self) -> CommandHandler:
        """Make the sessions of one more process."""
        snapshots = CheckedSnapshotStore(self.log, self.snapshots)
        texts = TextReader(log=self.log, blobs=self.blobs, media=MediaReader(MemoryMediaStore()))
        older = EmptyCommandIndex()
        return CommandHandler(
            log=self.log,
            snapshots=snapshots,
            texts=texts,
            older_commands=older,
            clock=self.clock,
            create_id=create_id,
            source="/test",
        )

    def build_dependencies(
        self, keep_alive: float = 15.0, reader_seconds: float = 20.0
    ) -> GatewayDependencies:
        """Make the desk of one more gateway."""
        settings = GatewaySettings(
            tenant=self.tenant, keep_alive=keep_alive, reader_seconds=reader_seconds
        )
        blueprints = BlueprintStore(self.blobs)
        library = MemoryLog(kind=LIBRARY_HISTORY)
        parts = LibraryParts(
            log=library, blobs=self.blobs, clock=self.clock, create_id=create_id, source="/test"
        )
        segment_service = SegmentService(parts)
        sessions = self.build_command_handler()
        use_case_parts = UseCaseParts(
            tokens=self.tokens,
            max_part_bytes=settings.max_part_bytes,
            max_request_bytes=settings.body_limit,
            command_handler=sessions,
            quotas=TurnQuotas(QuotaService(parts), self.log),
            media_limits=MediaLimitService(parts, sessions.texts.media.store),
            overrides=OverrideService(parts),
            access_keys=AccessKeyService(parts),
            tenants=TenantService(parts),
            webhooks=WebhookService(parts),
            webhook_settings=settings,
            alerts=AlertService(parts, MemoryLog(kind=ALERT_HISTORY)),
            retention=RetentionService(parts),
            reads=MemoryLog(kind=READ_HISTORY),
            segment_service=segment_service,
            knowledge_service=KnowledgeService(parts),
            knowledge_search=MemorySearch(()),
            prompt_inputs=PromptInputLoader(
                sessions, SegmentFetcher(segment_service, sessions.texts)
            ),
            blueprints=blueprints,
            blueprint_folders=BlueprintFolders(()),
            store=open_store("sqlite:///:memory:"),
            projection_signal=ProjectionSignal(),
            durability=Durability("relaxed", checked=False),
            default_model=settings.model,
            question_blueprint=settings.ask,
        )
        return build_dependencies(settings, use_case_parts, create_tracing("test", None))

    async def open_session(self) -> None:
        small = build_small_blueprint()
        ref = await BlueprintStore(self.blobs).store_blueprint(self.tenant, small)
        await self.send_command(
            OpenSession(blueprint=ref, profile="one", reach=compute_history_reach(small))
        )

    async def send_command(self, command: object) -> None:
        """Carry out a command, as yet another process."""
        await self.build_command_handler().handle(self.tenant, self.session, command, TESTER)  # type: ignore[arg-type]

    async def submit_turn(self, text: str = "Hi") -> None:
        """Submit a turn; it is queued while another turn is open."""
        await self.send_command(SubmitTurn(text=text, policies=QUEUE_POLICY))

    async def claim_turn(self, turn: int = 1) -> AttemptRef:
        """Take a turn for a worker, with the next attempt."""
        await self.send_command(
            ClaimTurn(turn, "w", QUEUE_POLICY, self.partial_replies.pop(turn, ""))
        )
        state = await self.build_command_handler().require_state(self.tenant, self.session)
        assert state.open
        attempt = AttemptRef(turn, f"{turn}.1", state.open.attempt)
        sign = AttemptAlive if attempt.attempt == 1 else AttemptReset
        await self._publish_token(attempt, sign(call=attempt.call, attempt=attempt.attempt))
        return attempt

    async def publish_text(self, attempt: AttemptRef, text: str) -> None:
        """Say a piece of a reply."""
        before = self.partial_replies.get(attempt.turn, "")
        self.partial_replies[attempt.turn] = before + text
        token = Token(call=attempt.call, attempt=attempt.attempt, offset=len(before), text=text)
        await self._publish_token(attempt, token)

    async def complete_turn(self, attempt: AttemptRef) -> str:
        """Record what was said as the reply."""
        text = self.partial_replies.get(attempt.turn, "")
        await self.send_command(
            CompleteTurn(attempt=attempt, text=text, finish="stop", spent=UNKNOWN_USAGE)
        )
        return text

    async def fail_turn(self, attempt: AttemptRef, code: str = "server_error") -> None:
        """Give up the turn, with what was said so far."""
        fault = AttemptFault(code=code, detail="it broke", retryable=True)
        partial = self.partial_replies.get(attempt.turn, "")
        await self.send_command(
            EndAttempt(
                attempt=attempt,
                outcome="failed",
                spent=UNKNOWN_USAGE,
                then="fail",
                fault=fault,
                partial=partial,
            )
        )

    async def cancel_turn(self, turn: int = 1) -> None:
        await self.send_command(CancelTurn(turn))

    async def redact_reply(self, turn: int = 1) -> None:
        await self.send_command(RedactReply(turn, "it names a person", "operator", "(withheld)"))

    async def _publish_token(
        self, attempt: AttemptRef, event: AttemptAlive | AttemptReset | Token
    ) -> None:
        await self.tokens.publish_token(self.tenant, self.session, attempt.turn, event)


@asynccontextmanager
async def open_streamed_session(
    tenant: str, nats_url: str | None
) -> AsyncGenerator[StreamedSession]:
    """Open a session on a real server's log, or on one in memory when `nats_url` is None."""
    if nats_url is None:
        stage = StreamedSession(
            log=MemoryLog(),
            blobs=MemoryBlobStore(),
            snapshots=MemorySnapshotStore(),
            tokens=MemoryTokenStream(),
            tenant=tenant,
        )
        await stage.open_session()
        yield stage
        return
    async with open_client(nats_url, StreamOptions()) as on:
        stage = StreamedSession(
            log=on.log, blobs=on.blobs, snapshots=on.snapshots, tokens=on.tokens, tenant=tenant
        )
        await stage.open_session()
        yield stage


def build_stream_gateway(desk: GatewayDependencies) -> FastAPI:
    """Make a gateway that has streams and nothing else."""
    app = FastAPI()
    app.dependency_overrides[get_principal] = lambda: Principal(tenant=desk.settings.tenant)
    app.state.settings, app.state.use_cases = desk.settings, desk.use_cases
    app.state.shutdown_event = desk.shutdown_event
    app.include_router(turn_routes.router)
    app.include_router(event_routes.router)
    app.add_exception_handler(TurnlogError, handle_error)
    return app


@asynccontextmanager
async def serve_app(app: ASGIApp, *, narrow: bool = False) -> AsyncGenerator[int]:
    """Serve an application on a free port and yield the port; `narrow` sockets buffer little."""
    listening = socket.create_server(("127.0.0.1", 0))
    if narrow:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, NARROW_BUFFER_BYTES)
    config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield int(listening.getsockname()[1])
    finally:
        server.should_exit = True
        await serving
