"""A service under attack: NATS, a gateway, a projector and two workers, each its own process.

Any process can be killed, stopped, set to die at a named point, disconnected, and started again.
The provider runs in the test's process and echoes what it was sent, so that a wrong answer shows.
`BackgroundService` runs the service for tests without an event loop.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import httpx

from tests.faults.crash.sitecustomize import CLOCK_AHEAD, CRASH_AT
from tests.parts.fault_proxy import FaultProxy, between
from tests.parts.forked import Process
from tests.parts.openai_behaviours import Echo, Errand
from tests.parts.openai_server import OpenAIServer
from tests.parts.processes import LOOK_EVERY, NOTHING, Machine, free_port, machine
from tests.parts.roles import telling
from tests.parts.service import WITHIN, Service, serviced
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

Role = Literal["gateway", "projector", "worker"]
ROLES: tuple[Role, ...] = ("gateway", "projector", "worker", "worker")
CRASH = Path(__file__).parent / "crash"
KILLED = -signal.SIGKILL
ACK_WAIT = 2.0
"""Seconds; long enough for a worker on a busy machine to show that it is alive."""


@dataclass(frozen=True, slots=True)
class Running:
    """A process of a role, and the address of its health check."""

    role: Role
    process: Process
    health: str


@dataclass
class Site:
    """A running service that tests attack."""

    folder: Path
    machine: Machine
    server: NatsServer
    provider: OpenAIServer
    service: Service
    places: Mapping[str, str]
    network: Mapping[Role, FaultProxy]
    """The proxy between NATS and the processes of each role."""
    running: list[Running] = field(default_factory=list["Running"])

    @property
    def database(self) -> str:
        return self.places["TURNLOG_DATABASE_URL"]

    @property
    def port(self) -> int:
        port = self.service.http.base_url.port
        assert port is not None
        return port

    async def start(self, role: Role, told: Mapping[str, str] = NOTHING) -> Running:
        """Start one more process of a role, with additional settings."""
        files = {CRASH_AT: self._point_of(role), CLOCK_AHEAD: self.folder / f"{role}.clock"}
        named = {name: str(file) for name, file in files.items()}
        place = self.places["TURNLOG_HTTP"] if role == "gateway" else f"127.0.0.1:{free_port()}"
        health = {} if role == "gateway" else {"TURNLOG_HEALTH": place}
        # A restarted server has its monitor on another port.
        monitor = self.server.monitor_url or ""
        way = {"TURNLOG_NATS_URL": self.network[role].url, "TURNLOG_NATS_MONITOR": monitor}
        process = await self.machine.start(
            *("run", role),
            said=self.folder / f"{role}.log",
            told={"PYTHONPATH": str(CRASH), **way, **named, **health, **told},
        )
        running = Running(role, process, f"http://{place}")
        self.running.append(running)
        return running

    async def ready(self) -> None:
        """Wait until every process can do its work."""
        async with asyncio.timeout(WITHIN):
            for each in tuple(self.running):
                while not await self._is_ready(each):
                    assert each.process.returncode is None, f"{each.role} ended"
                    await asyncio.sleep(LOOK_EVERY)

    async def start_missing(self) -> None:
        """Restart the processes that were killed, and wait until all can do their work."""
        for each in tuple(self.running):
            if each.process.returncode is not None:
                self.running.remove(each)
                await self.start(each.role)
        await self.ready()

    async def _is_ready(self, running: Running) -> bool:
        with suppress(httpx.TransportError):
            return (await self.service.http.get(f"{running.health}/readyz")).is_success
        return False

    def all(self, *roles: Role) -> list[Process]:
        """List the processes of some roles."""
        return [each.process for each in self.running if each.role in roles]

    def one(self, role: Role) -> Process:
        """Return the first process of a role."""
        return self.all(role)[0]

    def die_at(self, role: Role, point: str) -> None:
        """Have a process of a role kill itself when it next passes a point."""
        self._set(role, signal.SIGKILL, point)

    def stop_at(self, role: Role, point: str) -> None:
        """Have a process of a role stop itself at a point, until it gets SIGCONT."""
        self._set(role, signal.SIGSTOP, point)

    def _set(self, role: Role, number: signal.Signals, point: str) -> None:
        half = self.folder / f"{role}.half"
        half.write_text(f"{number.name} {point}")
        half.replace(self._point_of(role))

    def spared(self, role: Role) -> bool:
        """Remove the point of a role; tell whether no process had reached it."""
        try:
            self._point_of(role).unlink()
        except FileNotFoundError:
            return False
        return True

    async def died(self, role: Role) -> Process:
        """Wait until a process of a role has killed itself."""
        async with asyncio.timeout(WITHIN):
            while True:
                for process in self.all(role):
                    if process.returncode is not None:
                        assert process.returncode == KILLED, process.returncode
                        return process
                await asyncio.sleep(LOOK_EVERY)

    async def halted(self, role: Role) -> Process:
        """Wait until a process of a role has stopped itself."""
        async with asyncio.timeout(WITHIN):
            while True:
                for process in self.all(role):
                    if _is_stopped(process.pid):
                        return process
                await asyncio.sleep(LOOK_EVERY)

    async def kill(self, *processes: Process) -> None:
        """Kill processes and wait for their exit."""
        for process in processes:
            process.kill()
        await asyncio.gather(*(process.wait() for process in processes))

    async def kill_nats(self) -> None:
        os.kill(self.server.pid, signal.SIGKILL)
        await self.server.wait_for_exit()

    def set_clock(self, role: Role, ahead: float) -> None:
        """Set the clocks of a role ahead by so many seconds, or back."""
        (self.folder / f"{role}.clock").write_text(str(ahead))

    def _point_of(self, role: Role) -> Path:
        return self.folder / f"{role}.point"


def _is_stopped(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] == "T"


@asynccontextmanager
async def site(folder: Path, settings: Mapping[str, str] = NOTHING) -> AsyncGenerator[Site]:
    """Run the service; every process that still runs at the end must exit with 0."""
    port = free_port()
    async with (
        OpenAIServer(Errand(Echo(pace=0.002))) as provider,
        await NatsServer.start(NatsConfig(folder / "nats", monitor=True)) as server,
        serviced(f"http://127.0.0.1:{port}", server.url) as service,
    ):
        places = {
            "TURNLOG_DATABASE_URL": f"sqlite:///{folder / 'read-models.db'}",
            "TURNLOG_HTTP": f"127.0.0.1:{port}",
            "TURNLOG_ACK_WAIT": str(ACK_WAIT),
        }
        variables = {**telling(provider), **places, **settings}
        async with networked(server.url) as network, machine(folder, variables) as host:
            attacked = Site(folder, host, server, provider, service, places, network)
            for role in ROLES:
                await attacked.start(role)
            await attacked.ready()
            yield attacked


@asynccontextmanager
async def networked(server_url: str) -> AsyncGenerator[Mapping[Role, FaultProxy]]:
    """Run a proxy between NATS and the processes of each role."""
    async with (
        between(server_url) as gateway,
        between(server_url) as projector,
        between(server_url) as worker,
    ):
        yield {"gateway": gateway, "projector": projector, "worker": worker}
