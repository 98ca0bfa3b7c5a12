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
from turnlog.events.nats.connection import Connection
from turnlog.events.nats.opening import JetStream, jetstream_on
from turnlog.services.gateway.desk import Desk
from turnlog.services.runtime.blueprints import BlueprintStore
from turnlog.services.runtime.gathering import Gathering
from turnlog.services.runtime.library import Library
from turnlog.services.runtime.sessions import Sessions
from turnlog.services.runtime.settings import GatewaySettings
from turnlog.services.runtime.snapshots import CheckedSnapshots
from turnlog.services.runtime.telemetry import tracing
from turnlog.services.runtime.texts import TextReader
from turnlog.services.worker import app
from turnlog.services.worker.answering import Answering
from turnlog.services.worker.context import Contexts
from turnlog.services.worker.ending import Endings
from turnlog.services.worker.heartbeat import Heart

TENANT: Final = "t"
PLACES: Final = 3
"""Turns that a worker runs at once."""

Take = Callable[[NatsMessage, Answering], Any]
"""What a worker does with a delivery."""
Over = Callable[[JetStream], JetStream]
"""Wraps the connection of a process; planted faults use it."""


@dataclass(frozen=True, slots=True)
class Making:
    """How processes are composed: unchanged, or with a planted fault."""

    take: Take = app.take
    over: Over = lambda jetstream: jetstream
    asking: Callable[[Sessions], Sessions] = lambda sessions: sessions


@dataclass(eq=False)
class Role:
    """What gateways and workers share: a process, a connection, and a command handler."""

    process: Process
    wire: Wire
    on: JetStream
    sessions: Sessions
    blueprints: BlueprintStore


def role(name: str, server: Server, making: Making, wrong_by: float) -> Role:
    """Build a process on its own connection; its clock is off by `wrong_by` seconds."""
    loop = server.loop
    process = Process(name, loop)
    wire = Wire(process, server, server.weather)
    on = making.over(jetstream_on(Connection(wire.client, 5.0)))
    ids = count(1)
    sessions = Sessions(
        on.log,
        CheckedSnapshots(on.log, on.snapshots),
        TextReader(on.log, on.blobs),
        NoOlderCommands(),
        partial(loop.clock, wrong_by),
        lambda: f"{name}-{next(ids)}",
        f"/simulated/{name}",
    )
    return Role(process, wire, on, sessions, BlueprintStore(on.blobs))


def desk(made: Role, sessions: Sessions) -> Desk:
    """Build the gateway's dependencies, without read models and segment library."""
    parts: dict[str, Any] = {each.name: None for each in fields(Desk)}
    parts |= {
        "settings": GatewaySettings.model_construct(tenant=TENANT, keep_alive=15.0),
        "log": made.on.log,
        "tokens": made.on.tokens,
        "sessions": sessions,
        "blueprints": made.blueprints,
        "stopping": asyncio.Event(),
    }
    return Desk(**parts)


def gathering(made: Role) -> Gathering:
    """Build the loader of prompt inputs; no blueprint here uses segments."""
    return Gathering(made.on.log, made.sessions.texts, cast("Any", None))


ON_ITS_WAY: Final = 1.0
"""Seconds a worker listens after its pull request has expired, for a late delivery."""


@dataclass(eq=False)
class Worker:
    """A worker that runs turns."""

    role: Role
    model: SimulatedModel
    shop: SimulatedShop
    answering: Answering
    take: Take
    places: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    def begin(self) -> None:
        """Start to take turns."""
        self.places = [self.role.process.spawn(self._work()) for _ in range(PLACES)]

    async def _work(self) -> None:
        while not self.answering.stopping.is_set():
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
    answering = Answering(
        name=name,
        sessions=made.sessions,
        blueprints=made.blueprints,
        contexts=Contexts(
            made.sessions, made.blueprints, blobs, Library(()), gathering(made), "simulated/one"
        ),
        tokens=tokens,
        model=model,
        heart=Heart(made.sessions, tokens, server.ack_wait / 3),
        endings=Endings(made.sessions, tokens, blobs, model.prices, server.loop.chance.random),
        tracing=tracing("simulated", None),
        ack_wait=server.ack_wait,
        servers=shop,
    )
    return Worker(made, model, shop, answering, making.take)


@dataclass(eq=False)
class Gateway:
    """A gateway that clients send requests to."""

    role: Role
    desk: Desk


def gateway(name: str, server: Server, making: Making, wrong_by: float = 0.0) -> Gateway:
    made = role(name, server, making, wrong_by)
    return Gateway(made, desk(made, making.asking(made.sessions)))


def loop_of(made: Role) -> SimulatedLoop:
    return made.process.loop
