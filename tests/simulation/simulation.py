"""One simulation: a seed decides all of it, and the same seed gives the same bytes on the log.

Gateways, workers, clients and watchers run on one simulated loop against one simulated server. Up
to `FAULTS_END` processes are killed and stopped, connections are cut, and the server is restarted.
Afterwards everything must finish.
"""

from __future__ import annotations

import asyncio
import random
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from structlog.testing import capture_logs
from structlog.typing import EventDict

from tests.faults.history import History
from tests.simulation.client import Client
from tests.simulation.kinds import LESSON, dialogue, lesson, worker_of_steps
from tests.simulation.loop import Process, SimulatedLoop, Stuck
from tests.simulation.roles import TENANT, Gateway, Making, Role, Worker, gateway, worker
from tests.simulation.server import Server
from tests.simulation.watcher import Watcher
from tests.simulation.weather import CLEARS, ENDS, Weather, weather
from turnlog.events.codec import decode_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused, Unavailable
from turnlog.projections.blueprint.schema.blueprint_model import compute_history_reach
from turnlog.projections.prompt.session_material import SessionMaterial
from turnlog.projections.session.commands import OpenSession
from turnlog.projections.session.evolve import evolve
from turnlog.projections.session.state import SessionState
from turnlog.services.sessions.command_handler import CommandMetadata

ACK_WAIT: Final = 10.0
AS_IT_IS: Final = Making()


@dataclass(eq=False)
class Simulation:
    """The parts of a simulation, and afterwards its outcome."""

    seed: int
    making: Making = AS_IT_IS
    under: Weather | None = None
    """A fault profile to use; without one it is drawn from the seed."""
    history: History = field(default_factory=History)
    watchers: list[Watcher] = field(default_factory=list[Watcher])
    gateways: list[Gateway] = field(default_factory=list[Gateway])
    workers: list[Worker] = field(default_factory=list[Worker])
    clients: list[Client] = field(default_factory=list[Client])
    materials: dict[str, SessionMaterial] = field(default_factory=dict[str, SessionMaterial])
    """What each session is made from."""
    complaints: list[str] = field(default_factory=list[str])
    """Errors that no client was told of."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # noqa: S311 - it guards nothing
        self.weather = self.under or weather(self.chance)
        self.loop = SimulatedLoop(self.chance, ENDS)
        self.server = Server(self.loop, self.weather, ACK_WAIT)
        self._made = 0
        self._watching: list[asyncio.Task[None]] = []
        self._read: list[RecordedEvent] = []
        self._states: dict[str, SessionState | None] = {}

    def run(self) -> None:
        """Run the simulation to its end."""
        random.seed(self.seed)  # The product draws its own delays from this generator.
        with capture_logs(processors=(_told,)) as logs:
            try:
                self.loop.run(self._run())
            except Stuck as stuck:
                self.complaints.append(str(stuck))
            self.complaints += [str(log["told"]) for log in logs if log["event"] == "turn-broke"]
            self.complaints += self.loop.complaints
            self._wind_up()

    @property
    def roles(self) -> list[Role]:
        """Every process that ever ran."""
        gateways = [each.role for each in self.gateways]
        return [*gateways, *(each.role for each in self.workers)]

    def _wind_up(self) -> None:
        for role in self.roles:
            role.wire.closed = True
            role.process.revive()
        tasks = (task for role in self.roles for task in tuple(role.process.tasks))
        self.loop.wind_up([*tasks, *self._watching])

    @property
    def log(self) -> dict[str, list[RecordedEvent]]:
        """Every session's events as they are stored."""
        found: dict[str, list[RecordedEvent]] = {session: [] for session in self.materials}
        for recorded in self._newly_read():
            found[recorded.session].append(recorded)
        return found

    async def _run(self) -> None:
        for _ in range(2):
            self.gateways.append(self._gateway())
        for _ in range(self.chance.randint(1, 3)):
            self._worker()
        sessions = [await self._open(f"s{n}") for n in range(self.chance.randint(1, 3))]
        self.server.spite = self._kill_it
        self._spoil()
        async with asyncio.TaskGroup() as clients:
            for session in sessions:
                for number in range(self.chance.choice((1, 2, 3))):
                    self.clients.append(self._client(session, number))
                    clients.create_task(self.clients[-1].run(self.chance.randint(2, 9)))
        await self._settled()
        for task in self._watching:
            await task
        # Superseded workers send their last acknowledgements in this time.
        await asyncio.sleep(6 * ACK_WAIT)

    def _named(self, kind: str) -> str:
        self._made += 1
        return f"{kind}-{self._made}"

    def _gateway(self) -> Gateway:
        wrong_by = self.chance.choice((0.0, 0.0, 2.0, -2.0))
        return gateway(self._named("gateway"), self.server, self.making, wrong_by)

    def _worker(self) -> None:
        wrong_by = self.chance.choice((0.0, 0.0, 2.0, -2.0))
        made = worker(self._named("worker"), self.server, self.making, wrong_by)
        self.workers.append(made)
        made.begin()

    async def _open(self, session: str) -> str:
        material = self.materials[session] = self._drawn()
        role = self.gateways[0].role
        self._newly_read()
        while session not in self._states:
            with suppress(Unavailable, Refused):
                await role.process.spawn(_opened(role, session, material))
            self._newly_read()
        return session

    def _drawn(self) -> SessionMaterial:
        drawn = self.chance.random()
        if drawn < 0.35:
            return SessionMaterial(lesson(self.chance), LESSON)
        return SessionMaterial(
            worker_of_steps(self.chance) if drawn < 0.5 else dialogue(self.chance)
        )

    def _client(self, session: str, number: int) -> Client:
        return Client(
            f"{session}c{number}",
            session,
            self.materials[session],
            self.loop,
            self._some_gateway,
            self.history,
            self._watch,
        )

    def _some_gateway(self) -> Gateway:
        return self.chance.choice(self.gateways[-2:])

    def _watch(self, session: str, turn: int) -> None:
        if self.chance.random() < 0.5:
            watcher = Watcher(session, turn, self.loop, self._some_gateway)
            self.watchers.append(watcher)
            self._watching.append(self.loop.create_task(self._watched(watcher)))

    async def _watched(self, watcher: Watcher) -> None:
        self.history.heard.append(await watcher.run())

    def _spoil(self) -> None:
        """Schedule every fault of the profile at a random time."""
        for times, fault in (
            (self.weather.kills, self._kill),
            (self.weather.stops, self._stop),
            (self.weather.cuts, self._cut),
            (self.weather.restarts, self._restart),
        ):
            for _ in range(times):
                self.loop.call_later(self.chance.random() * CLEARS, fault)

    def _some_role(self) -> Role:
        return self.chance.choice([role for role in self.roles if role.process.alive])

    def _kill(self) -> None:
        self._kill_it(self._some_role().process)

    def _kill_it(self, process: Process) -> None:
        process.kill()
        again = self._worker if process.name.startswith("worker") else self._gateway_again
        self.loop.call_later(self.chance.random() * 5, again)
        self.gateways.sort(key=lambda each: each.role.process.alive)

    def _gateway_again(self) -> None:
        self.gateways.append(self._gateway())

    def _stop(self) -> None:
        self._some_role().process.stop_for(
            self.chance.random() * self.chance.choice((2, 4)) * ACK_WAIT
        )

    def _cut(self) -> None:
        self._some_role().wire.cut(self.chance.random() * 1.5 * ACK_WAIT)

    def _restart(self) -> None:
        self.server.restart(self.chance.random() * 5)

    async def _settled(self) -> None:
        """Wait until faults have ended and no turn is open."""
        while self.loop.time() < CLEARS or self.open:  # noqa: ASYNC110 - the log is looked at
            await asyncio.sleep(ACK_WAIT / 2)

    @property
    def open(self) -> list[str]:
        """Sessions with an open turn."""
        self._newly_read()
        return [name for name, state in self._states.items() if state and state.open]

    def _newly_read(self) -> list[RecordedEvent]:
        for stored in self.server.sessions.messages[len(self._read) :]:
            recorded = decode_event(stored.data, stored.sequence)
            self._read.append(recorded)
            before = self._states.get(recorded.session)
            self._states[recorded.session] = evolve(before, recorded)
        return self._read


def _told(logger: object, name: str, log: EventDict) -> EventDict:
    del logger, name
    if log.get("exc_info"):
        log["told"] = "".join(traceback.format_exception(sys.exception()))
    return log


async def _opened(role: Role, session: str, material: SessionMaterial) -> None:
    blueprint, store = material.blueprint, role.blueprints
    ref = await store.store_blueprint(TENANT, blueprint)
    cartridge = await store.store_cartridge(TENANT, material.cartridge) if material.phases else None
    profile = blueprint.default_profile
    command = OpenSession(
        ref, profile, compute_history_reach(blueprint), {}, cartridge, material.phases
    )
    await role.sessions.handle(TENANT, session, command, CommandMetadata("tester"))
