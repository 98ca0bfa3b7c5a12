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

from tests.faults.clients.client_history import ClientHistory
from tests.simulation.fault_profiles import FAULTS_END, TIME_LIMIT, FaultProfile, draw_fault_profile
from tests.simulation.network.simulated_server import SimulatedServer
from tests.simulation.processes.simulated_client import SimulatedClient
from tests.simulation.processes.simulated_loop import (
    SimulatedLoop,
    SimulatedProcess,
    SimulationStuck,
)
from tests.simulation.processes.simulated_media import SimulatedMedia
from tests.simulation.processes.simulated_roles import (
    TENANT,
    ProcessOptions,
    SimulatedGateway,
    SimulatedRole,
    SimulatedWorker,
    build_gateway,
    build_worker,
)
from tests.simulation.processes.simulated_watcher import SimulatedWatcher
from tests.simulation.session_kinds import (
    LESSON_CARTRIDGE,
    MEDIA_WINDOW,
    TEXT_WINDOW,
    draw_agent,
    draw_dialogue,
    draw_guarded_helper,
    draw_helper,
    draw_lesson,
    draw_team,
)
from turnlog.events.codec import decode_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused, Unavailable
from turnlog.events.model.session_events import SessionOpened
from turnlog.projections.blueprint.schema.blueprint_model import compute_history_reach
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import OpenSession
from turnlog.projections.session.evolve import evolve
from turnlog.projections.session.state import SessionState
from turnlog.services.command_handling.idempotent_commands import CommandMetadata

ACK_WAIT: Final = 10.0
UNCHANGED: Final = ProcessOptions()

TEAM_SHARE: Final = 16
"""One of so many seeds has coordinators with children."""


def has_teams(seed: int) -> bool:
    """Return whether most sessions of a seed are coordinators with children."""
    return seed % TEAM_SHARE == TEAM_SHARE - 2


def has_matters(seed: int) -> bool:
    """Return whether turns of the coordinators of a seed have an input for their children."""
    return seed % (4 * TEAM_SHARE) == 2 * TEAM_SHARE - 2


def has_media(seed: int) -> bool:
    """Return whether turns and results of tools have pictures, recordings and files in a seed."""
    return seed % 8 in {0, 7}


@dataclass(eq=False, kw_only=True)
class Simulation:
    """The parts of a simulation, and afterwards its outcome."""

    seed: int
    options: ProcessOptions = UNCHANGED
    profile: FaultProfile | None = None
    """A fault profile to use; without one it is drawn from the seed."""
    history: ClientHistory = field(default_factory=ClientHistory)
    watchers: list[SimulatedWatcher] = field(default_factory=list[SimulatedWatcher])
    gateways: list[SimulatedGateway] = field(default_factory=list[SimulatedGateway])
    workers: list[SimulatedWorker] = field(default_factory=list[SimulatedWorker])
    clients: list[SimulatedClient] = field(default_factory=list[SimulatedClient])
    materials: dict[str, SessionMaterial] = field(default_factory=dict[str, SessionMaterial])
    """What each session is made from."""
    uploads: list[SimulatedMedia] = field(default_factory=list[SimulatedMedia])
    """What clients have uploaded, in the seeds with media."""
    complaints: list[str] = field(default_factory=list[str])
    """Errors that no client was told of."""
    all_awake_at: float = FAULTS_END
    """Seconds after which no process is stopped: the last stop may end after the last fault."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # noqa: S311 - it guards nothing
        self.fault_profile = self.profile or draw_fault_profile(self.chance)
        self.loop = SimulatedLoop(self.chance, TIME_LIMIT)
        self.server = SimulatedServer(
            loop=self.loop,
            fault_profile=self.fault_profile,
            ack_wait=ACK_WAIT,
            has_media=has_media(self.seed),
        )
        self._made = 0
        self._watching: list[asyncio.Task[None]] = []
        self._read: list[RecordedEvent] = []
        self._states: dict[str, SessionState | None] = {}
        self._parents: dict[str, str] = {}

    def run(self) -> None:
        """Run the simulation to its end."""
        random.seed(self.seed)  # The product draws its own delays from this generator.
        with capture_logs(processors=(_add_traceback,)) as logs:
            try:
                self.loop.run_until_done(self._run_session_clients())
            except SimulationStuck as stuck:
                self.complaints.append(str(stuck))
            self.complaints += [
                f"{log['error']}\n{log['frames']}"
                for log in logs
                if log["event"] == "turn-failed-unexpectedly"
            ]
            self.complaints += self.loop.complaints
            self._end_tasks()

    @property
    def roles(self) -> list[SimulatedRole]:
        """Every process that ever ran."""
        gateways = [each.role for each in self.gateways]
        return [*gateways, *(each.role for each in self.workers)]

    def _end_tasks(self) -> None:
        for role in self.roles:
            role.connection.closed = True
            role.process.restore_tasks()
        tasks = (task for role in self.roles for task in tuple(role.process.tasks))
        self.loop.end_tasks([*tasks, *self._watching])

    @property
    def log(self) -> dict[str, list[RecordedEvent]]:
        """Every session's events as they are stored."""
        read = self._read_new_events()
        found: dict[str, list[RecordedEvent]] = {session: [] for session in self.materials}
        for recorded in read:
            found[recorded.session].append(recorded)
        return found

    async def _run_session_clients(self) -> None:
        for _ in range(2):
            self.gateways.append(self._start_gateway())
        for _ in range(self.chance.randint(1, 3)):
            self._start_worker()
        sessions = [await self._open_session(f"s{n}") for n in range(self.chance.randint(1, 3))]
        self.server.kill_process = self._kill_process
        self._schedule_faults()
        async with asyncio.TaskGroup() as clients:
            for session in sessions:
                for number in range(self.chance.choice((1, 2, 3))):
                    self.clients.append(self._build_client(session, number))
                    clients.create_task(self.clients[-1].run_steps(self.chance.randint(2, 9)))
        await self._wait_until_settled()
        for task in self._watching:
            await task
        # Superseded workers send their last acknowledgements in this time.
        await asyncio.sleep(6 * ACK_WAIT)

    def _create_name(self, kind: str) -> str:
        self._made += 1
        return f"{kind}-{self._made}"

    def _start_gateway(self) -> SimulatedGateway:
        wrong_by = self.chance.choice((0.0, 0.0, 2.0, -2.0))
        return build_gateway(self._create_name("gateway"), self.server, self.options, wrong_by)

    def _start_worker(self) -> None:
        wrong_by = self.chance.choice((0.0, 0.0, 2.0, -2.0))
        made = build_worker(self._create_name("worker"), self.server, self.options, wrong_by)
        self.workers.append(made)
        made.start_worker()

    async def _open_session(self, session: str) -> str:
        material = self.materials[session] = self._draw_material()
        role = self.gateways[0].role
        self._read_new_events()
        while session not in self._states:
            with suppress(Unavailable, Refused):
                await role.process.spawn_task(_open_session(role, session, material))
            self._read_new_events()
        return session

    def _draw_material(self) -> SessionMaterial:
        drawn, window = self.chance.random(), MEDIA_WINDOW if has_media(self.seed) else TEXT_WINDOW
        # By the seed and not by another draw, which would change what every seed does.
        if has_teams(self.seed) and drawn < 0.8:
            return SessionMaterial(
                blueprint=draw_team(self.chance, has_matter=has_matters(self.seed))
            )
        if drawn < 0.35:
            return SessionMaterial(
                blueprint=draw_lesson(self.chance, window), cartridge=LESSON_CARTRIDGE
            )
        if self.seed % 8 == 4:
            return SessionMaterial(blueprint=draw_guarded_helper(self.chance))
        draw_tool_user = draw_helper if self.seed % 8 == 0 else draw_agent
        if drawn < 0.5:
            return SessionMaterial(blueprint=draw_tool_user(self.chance))
        return SessionMaterial(blueprint=draw_dialogue(self.chance, window))

    def _build_client(self, session: str, number: int) -> SimulatedClient:
        return SimulatedClient(
            name=f"{session}c{number}",
            session=session,
            material=self.materials[session],
            loop=self.loop,
            gateway=self._pick_gateway,
            history=self.history,
            watch=self._start_watcher,
            pick_child=self._pick_child,
            uploads=self.uploads if has_media(self.seed) else None,
        )

    def _pick_child(self, client: SimulatedClient) -> SimulatedClient | None:
        """Return a client of a child session that was opened for this client's session."""
        self._read_new_events()
        children = [name for name in self._parents if self._find_root(name) == client.session]
        if not children:
            return None
        child = self.chance.choice(children)
        name, state = f"{client.name}-{children.index(child)}", self._states[child]
        named = (each for each in self.clients if each.name == name)
        found = next(named, None)
        if found is None:
            found = self._build_client(child, 0)
            found.name, found.is_of_child = name, True
            self.clients.append(found)
        found.turn = state.submitted if state else 0
        return found

    def _find_root(self, session: str) -> str:
        while session in self._parents:
            session = self._parents[session]
        return session

    def _pick_gateway(self) -> SimulatedGateway:
        return self.chance.choice(self.gateways[-2:])

    def _start_watcher(self, session: str, turn: int) -> None:
        if self.chance.random() < 0.5:
            watcher = SimulatedWatcher(
                session=session, turn=turn, loop=self.loop, gateway=self._pick_gateway
            )
            self.watchers.append(watcher)
            self._watching.append(self.loop.create_task(self._run_watcher(watcher)))

    async def _run_watcher(self, watcher: SimulatedWatcher) -> None:
        self.history.heard.append(await watcher.watch_turn())

    def _schedule_faults(self) -> None:
        """Schedule every fault of the profile at a random time."""
        for times, fault in (
            (self.fault_profile.kills, self._kill_role),
            (self.fault_profile.stops, self._stop_role),
            (self.fault_profile.cuts, self._cut_connection),
            (self.fault_profile.restarts, self._restart_server),
        ):
            for _ in range(times):
                self.loop.call_later(self.chance.random() * FAULTS_END, fault)

    def _pick_role(self) -> SimulatedRole | None:
        """Return a role that runs; None while all are down at once, when a fault hits none."""
        running = [role for role in self.roles if role.process.alive]
        return self.chance.choice(running) if running else None

    def _kill_role(self) -> None:
        if role := self._pick_role():
            self._kill_process(role.process)

    def _kill_process(self, process: SimulatedProcess) -> None:
        process.kill_tasks()
        again = self._start_worker if process.name.startswith("worker") else self._restart_gateway
        self.loop.call_later(self.chance.random() * 5, again)
        self.gateways.sort(key=lambda each: each.role.process.alive)

    def _restart_gateway(self) -> None:
        self.gateways.append(self._start_gateway())

    def _stop_role(self) -> None:
        if role := self._pick_role():
            seconds = self.chance.random() * self.chance.choice((2, 4)) * ACK_WAIT
            self.all_awake_at = max(self.all_awake_at, self.loop.time() + seconds)
            role.process.stop_for(seconds)

    def _cut_connection(self) -> None:
        if role := self._pick_role():
            role.connection.take_down(self.chance.random() * 1.5 * ACK_WAIT)

    def _restart_server(self) -> None:
        self.server.restart_server(self.chance.random() * 5)

    async def _wait_until_settled(self) -> None:
        """Wait until faults have ended and no turn is open."""
        while self.loop.time() < FAULTS_END or self.open_sessions:  # noqa: ASYNC110 - the log is looked at
            await asyncio.sleep(ACK_WAIT / 2)

    @property
    def open_sessions(self) -> list[str]:
        """Sessions with an open turn."""
        self._read_new_events()
        return [name for name, state in self._states.items() if state and state.open]

    def _read_new_events(self) -> list[RecordedEvent]:
        for stored in self.server.sessions.messages[len(self._read) :]:
            recorded = decode_event(stored.data, stored.sequence)
            self._read.append(recorded)
            if isinstance(recorded.event, SessionOpened) and (of := recorded.event.origin):
                self._parents[recorded.session] = of.session
                self.materials[recorded.session] = self.materials[of.session]
            before = self._states.get(recorded.session)
            self._states[recorded.session] = evolve(before, recorded)
        return self._read


def _add_traceback(logger: object, name: str, log: EventDict) -> EventDict:
    del logger, name
    if log.get("exc_info"):
        log["told"] = "".join(traceback.format_exception(sys.exception()))
    return log


async def _open_session(role: SimulatedRole, session: str, material: SessionMaterial) -> None:
    blueprint, store = material.blueprint, role.blueprints
    ref = await store.store_blueprint(TENANT, blueprint)
    cartridge = await store.store_cartridge(TENANT, material.cartridge) if material.phases else None
    profile = blueprint.default_profile
    command = OpenSession(
        blueprint=ref,
        profile=profile,
        reach=compute_history_reach(blueprint),
        attributes={},
        cartridge=cartridge,
        phases=material.phases,
    )
    await role.sessions.handle(TENANT, session, command, CommandMetadata("tester"))
