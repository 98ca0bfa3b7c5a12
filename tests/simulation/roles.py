"""The gateway and the worker of a simulation: the real parts, on a simulated connection.

A gateway's request handlers and a worker's message handler are the product's own code; only HTTP,
FastStream and litellm are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import count
from typing import Any, Final, cast

from faststream.nats.message import NatsMessage
from nats import errors

from tests.parts.house import NoOlderCommands
from tests.simulation.durable import PULL, PULL_SECONDS
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.model import SimulatedModel
from tests.simulation.server import Server
from tests.simulation.shop import SimulatedShop
from tests.simulation.wire import HOLDING, Wire
from turnlog.events.jetstream.jetstream_client import JetStreamClient, build_client
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.gateway.dependencies import GatewayDependencies
from turnlog.services.platform.process_settings import GatewaySettings
from turnlog.services.platform.telemetry import create_tracing
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.prompt_inputs import PromptInputLoader
from turnlog.services.sessions.session_snapshots import CheckedSnapshotStore
from turnlog.services.sessions.text_cache import TextReader
from turnlog.services.worker import app
from turnlog.services.worker.attempts.attempt_outcomes import OutcomeRecorder
from turnlog.services.worker.attempts.call_context import CallContextBuilder
from turnlog.services.worker.heartbeat import AttemptHeartbeat
from turnlog.services.worker.turn_runner import TurnRunner

TENANT: Final = "t"
PLACES: Final = 3
"""Turns that a worker runs at once."""

Take = Callable[[NatsMessage, TurnRunner], Any]
"""What a worker does with a delivery."""
Over = Callable[[JetStreamClient], JetStreamClient]
"""What stands between the parts of a process and its connection; planted faults do."""


@dataclass(frozen=True, slots=True)
class Making:
    """How processes are composed: unchanged, or with a planted fault."""

    take: Take = app.handle_message
    over: Over = lambda jetstream: jetstream
    asking: Callable[[CommandHandler], CommandHandler] = lambda sessions: sessions


@dataclass(eq=False)
class Role:
    """What gateways and workers share: a process, a connection, and a command handler."""

    process: Process
    wire: Wire
    on: JetStreamClient
    sessions: CommandHandler
    blueprints: BlueprintStore


def role(name: str, server: Server, making: Making, wrong_by: float) -> Role:
    """Build a process on its own connection; its clock is off by `wrong_by` seconds."""
    loop = server.loop
    process = Process(name, loop)
    wire = Wire(process, server, server.weather)
    on = making.over(build_client(NatsConnection(wire.client, 5.0)))
    ids = count(1)
    sessions = CommandHandler(
        on.log,
        CheckedSnapshotStore(on.log, on.snapshots),
        TextReader(on.log, on.blobs),
        NoOlderCommands(),
        partial(loop.clock, wrong_by),
        lambda: f"{name}-{next(ids)}",
        f"/simulated/{name}",
    )
    return Role(process, wire, on, sessions, BlueprintStore(on.blobs))


def desk(made: Role, sessions: CommandHandler) -> GatewayDependencies:
    """Give what the gateway's handlers work with; read models and the library are left out."""
    parts: dict[str, Any] = {each.name: None for each in fields(GatewayDependencies)}
    parts |= {
        "settings": GatewaySettings.model_construct(tenant=TENANT, keep_alive=15.0),
        "log": made.on.log,
        "tokens": made.on.tokens,
        "sessions": sessions,
        "blueprints": made.blueprints,
        "stopping": asyncio.Event(),
    }
    return GatewayDependencies(**parts)


def gathering(made: Role) -> PromptInputLoader:
    """Give what calls are filled in by; no blueprint here asks for segments."""
    return PromptInputLoader(made.on.log, made.sessions.texts, cast("Any", None))


ON_ITS_WAY: Final = 1.0
"""Seconds a worker listens after its pull request has expired, for a late delivery."""


@dataclass(eq=False)
class Worker:
    """A worker that runs turns."""

    role: Role
    model: SimulatedModel
    shop: SimulatedShop
    answering: TurnRunner
    take: Take
    places: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    def begin(self) -> None:
        """Start to take turns."""
        self.places = [self.role.process.spawn(self._work()) for _ in range(PLACES)]

    async def _work(self) -> None:
        while not self.answering.stop_requested.is_set():
            with suppress(errors.Error):
                raw = await self.role.wire.request(PULL, timeout=PULL_SECONDS + ON_ITS_WAY)
                place = raw.metadata
                HOLDING.set((place.sequence.stream, place.num_delivered))
                await self.take(
                    NatsMessage(raw, raw.data, correlation_id="", message_id=""), self.answering
                )
            HOLDING.set(None)


def worker(name: str, server: Server, making: Making, wrong_by: float = 0.0) -> Worker:
    made = role(name, server, making, wrong_by)
    model = SimulatedModel(server.loop, server.weather)
    shop = SimulatedShop(server.loop, server.weather)
    tokens, blobs = made.on.tokens, made.on.blobs
    answering = TurnRunner(
        name=name,
        sessions=made.sessions,
        blueprints=made.blueprints,
        contexts=CallContextBuilder(
            made.sessions,
            made.blueprints,
            blobs,
            BlueprintFolders(()),
            gathering(made),
            "simulated/one",
        ),
        tokens=tokens,
        model=model,
        heartbeat=AttemptHeartbeat(made.sessions, tokens, server.ack_wait / 3),
        outcomes=OutcomeRecorder(
            made.sessions, tokens, blobs, model.prices, server.loop.chance.random
        ),
        tracing=create_tracing("simulated", None),
        ack_wait=server.ack_wait,
        servers=shop,
    )
    return Worker(made, model, shop, answering, making.take)


@dataclass(eq=False)
class Gateway:
    """A gateway that clients send requests to."""

    role: Role
    desk: GatewayDependencies


def gateway(name: str, server: Server, making: Making, wrong_by: float = 0.0) -> Gateway:
    made = role(name, server, making, wrong_by)
    return Gateway(made, desk(made, making.asking(made.sessions)))


def loop_of(made: Role) -> SimulatedLoop:
    return made.process.loop
