"""The gateway and the worker of a simulation: the real parts, on a simulated connection.

A gateway's request handlers and a worker's message handler are the product's own code; only HTTP,
FastStream and litellm are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final, cast

from faststream.nats.message import NatsMessage
from nats import errors

from tests.simulation.network.simulated_connection import CURRENT_DELIVERY, SimulatedConnection
from tests.simulation.network.simulated_consumer import PULL_SECONDS, PULL_SUBJECT
from tests.simulation.network.simulated_server import SimulatedServer
from tests.simulation.processes.simulated_loop import SimulatedLoop, SimulatedProcess
from tests.simulation.processes.simulated_model import SimulatedModel
from tests.simulation.processes.simulated_tool_server import SimulatedToolServer
from tests.support.sessions.flat_pricing import create_flat_pricing
from tests.support.sessions.session_harness import EmptyCommandIndex
from turnlog.events.jetstream.jetstream_client import JetStreamClient, build_client
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.services.approvals.approval_use_cases import ApprovalUseCases
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.caches.media_cache import MediaReader
from turnlog.services.caches.session_snapshots import CheckedSnapshotStore
from turnlog.services.caches.text_cache import TextReader
from turnlog.services.command_handling.tenant_histories import LibraryParts
from turnlog.services.media.media_use_cases import MediaUseCases
from turnlog.services.media.turn_parts import TurnPartsIntake
from turnlog.services.model_facts.model_dialects import ModelDialects
from turnlog.services.overrides.override_service import OverrideService
from turnlog.services.platform.telemetry.traces import create_tracing
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.cut_replies import CutReplyReader
from turnlog.services.sessions.prompt_inputs import PromptInputLoader
from turnlog.services.use_cases.sessions.session_steering import SessionSteering
from turnlog.services.use_cases.turns.turn_submission import TurnSubmitter
from turnlog.services.use_cases.turns.turn_watching import TurnWatching
from turnlog.services.worker import delivery_handling
from turnlog.services.worker.attempts.attempt_heartbeats import AttemptHeartbeat
from turnlog.services.worker.attempts.attempt_outcomes import OutcomeRecorder
from turnlog.services.worker.attempts.call_context import CallContextBuilder
from turnlog.services.worker.turn_runner import TurnRunner

TENANT: Final = "t"

MAX_PART_BYTES: Final = 1_000_000

TURNS_AT_ONCE: Final = 3
"""Turns that a worker runs at once."""

MessageHandler = Callable[[NatsMessage, NatsConnection, TurnRunner], Any]
"""What a worker does with a delivery."""

ConnectionWrapper = Callable[[JetStreamClient], JetStreamClient]
"""What stands between the parts of a process and its connection; planted faults do."""


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """How processes are composed: unchanged, or with a planted fault."""

    take: MessageHandler = delivery_handling.handle_message
    over: ConnectionWrapper = lambda jetstream: jetstream
    asking: Callable[[CommandHandler], CommandHandler] = lambda sessions: sessions


@dataclass(eq=False, kw_only=True)
class SimulatedRole:
    """What gateways and workers share: a process, a connection, and a command handler."""

    process: SimulatedProcess
    connection: SimulatedConnection
    client: JetStreamClient
    sessions: CommandHandler
    blueprints: BlueprintStore


def build_role(
    name: str, server: SimulatedServer, making: ProcessOptions, wrong_by: float
) -> SimulatedRole:
    """Build a process on its own connection; its clock is off by `wrong_by` seconds."""
    loop = server.loop
    process = SimulatedProcess(name=name, loop=loop)
    wire = SimulatedConnection(process=process, server=server, fault_profile=server.fault_profile)
    on = making.over(build_client(NatsConnection(nc=wire.client, patience=5.0)))
    ids = count(1)
    sessions = CommandHandler(
        log=on.log,
        snapshots=CheckedSnapshotStore(on.log, on.snapshots),
        texts=TextReader(log=on.log, blobs=on.blobs, media=MediaReader(on.media)),
        older_commands=EmptyCommandIndex(),
        clock=partial(loop.read_clock, wrong_by),
        create_id=lambda: f"{name}-{next(ids)}",
        source=f"/simulated/{name}",
    )
    return SimulatedRole(
        process=process,
        connection=wire,
        client=on,
        sessions=sessions,
        blueprints=BlueprintStore(on.blobs),
    )


def build_override_service(made: SimulatedRole) -> OverrideService:
    """Give what a submit asks for the own prompts of its user; no client here names one."""
    handler, on = made.sessions, made.client
    return OverrideService(
        LibraryParts(
            log=on.log,
            blobs=on.blobs,
            clock=handler.clock,
            create_id=handler.create_id,
            source=handler.source,
        )
    )


def build_input_loader(made: SimulatedRole) -> PromptInputLoader:
    """Give what calls are filled in by; no blueprint here asks for segments."""
    return PromptInputLoader(made.sessions, cast("Any", None))


LATE_DELIVERY_SECONDS: Final = 1.0
"""Seconds a worker listens after its pull request has expired, for a late delivery."""


@dataclass(eq=False, kw_only=True)
class SimulatedWorker:
    """A worker that runs turns."""

    role: SimulatedRole
    model: SimulatedModel
    tool_server: SimulatedToolServer
    turn_runner: TurnRunner
    take: MessageHandler
    tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    def start_worker(self) -> None:
        """Start to take turns."""
        self.tasks = [self.role.process.spawn_task(self._run_turns()) for _ in range(TURNS_AT_ONCE)]

    async def _run_turns(self) -> None:
        while not self.turn_runner.stop_requested.is_set():
            with suppress(errors.Error):
                raw = await self.role.connection.request(
                    PULL_SUBJECT, timeout=PULL_SECONDS + LATE_DELIVERY_SECONDS
                )
                # A server delivers a message under its own subject, not under that of the request.
                raw.subject = (raw.headers or {})["Nats-Subject"]
                place = raw.metadata
                CURRENT_DELIVERY.set((place.sequence.stream, place.num_delivered))
                message = NatsMessage(raw, raw.data, correlation_id="", message_id="")
                await self.take(message, self.role.client.connection, self.turn_runner)
            CURRENT_DELIVERY.set(None)


def build_worker(
    name: str, server: SimulatedServer, making: ProcessOptions, wrong_by: float = 0.0
) -> SimulatedWorker:
    made = build_role(name, server, making, wrong_by)
    model = SimulatedModel(server.loop, server.fault_profile)
    shop = SimulatedToolServer(server.loop, server.fault_profile, server.has_media)
    tokens, blobs = made.client.tokens, made.client.blobs
    answering = TurnRunner(
        name=name,
        sessions=made.sessions,
        blueprints=made.blueprints,
        contexts=CallContextBuilder(
            sessions=made.sessions,
            blueprints=made.blueprints,
            blobs=blobs,
            library=BlueprintFolders(()),
            prompt_inputs=build_input_loader(made),
            default_model="simulated/one",
        ),
        tokens=tokens,
        model=model,
        heartbeat=AttemptHeartbeat(made.sessions, tokens, server.ack_wait / 3),
        outcomes=OutcomeRecorder(
            sessions=made.sessions,
            blobs=blobs,
            pricing=create_flat_pricing("simulated"),
            jitter=server.loop.chance.random,
            draw_bytes=server.loop.chance.randbytes,
        ),
        tracing=create_tracing("simulated", None),
        ack_wait=server.ack_wait,
        servers=shop,
    )
    return SimulatedWorker(
        role=made, model=model, tool_server=shop, turn_runner=answering, take=making.take
    )


@dataclass(eq=False, kw_only=True)
class SimulatedGateway:
    """A gateway that clients send requests to; read models and the library are left out."""

    role: SimulatedRole
    submission: TurnSubmitter
    turns: TurnWatching
    steering: SessionSteering
    approvals: ApprovalUseCases
    media: MediaUseCases


def build_gateway(
    name: str, server: SimulatedServer, making: ProcessOptions, wrong_by: float = 0.0
) -> SimulatedGateway:
    made = build_role(name, server, making, wrong_by)
    handler, overrides = making.asking(made.sessions), build_override_service(made)
    cut_replies = CutReplyReader(made.blueprints, made.client.tokens)
    return SimulatedGateway(
        role=made,
        submission=TurnSubmitter(
            command_handler=handler,
            blueprints=made.blueprints,
            overrides=overrides,
            default_model="simulated/one",
            dialects=ModelDialects(),
            intake=TurnPartsIntake(store=made.client.media, most_bytes=MAX_PART_BYTES),
            most_bytes=262_144,
            cut_replies=cut_replies,
        ),
        turns=TurnWatching(handler, made.client.tokens, asyncio.Event()),
        steering=SessionSteering(
            command_handler=handler, blueprints=made.blueprints, cut_replies=cut_replies
        ),
        approvals=ApprovalUseCases(handler, made.blueprints),
        media=MediaUseCases(store=made.client.media, most_bytes=MAX_PART_BYTES),
    )


def get_loop(made: SimulatedRole) -> SimulatedLoop:
    return made.process.loop
