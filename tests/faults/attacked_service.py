"""A service under attack: NATS, a gateway, a projector and two workers, each its own process.

Any process can be killed, stopped, set to die at a named point, disconnected, and started again.
The provider runs in the test's process and echoes what it was sent, so that a wrong answer shows.
`BackgroundService` runs the service for tests without an event loop.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import httpx

from tests.faults.crash.sitecustomize import CLOCK_AHEAD, CRASH_AT
from tests.support.processes.live_service import SERVICE_TIMEOUT, LiveService, connect_service
from tests.support.processes.loop_holds import assert_loop_free
from tests.support.processes.process_host import (
    NO_VARIABLES,
    POLL_INTERVAL,
    ProcessHost,
    find_free_port,
    run_process_host,
)
from tests.support.processes.separate_roles import build_settings
from tests.support.processes.turnlog_process import TurnlogProcess
from tests.support.servers.fault_proxy import FaultProxy, run_fault_proxy
from tests.support.servers.model_behaviours import AgentAnswer, EchoAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

AttackedRole = Literal["gateway", "projector", "worker"]

STARTED_ROLES: tuple[AttackedRole, ...] = ("gateway", "projector", "worker", "worker")

CRASH_FOLDER = Path(__file__).parent / "crash"

KILLED_EXIT_CODE = -signal.SIGKILL

ACK_WAIT = 2.0
"""Seconds; long enough for a worker on a busy machine to show that it is alive."""


@dataclass(frozen=True, slots=True)
class RunningRole:
    """A process of a role, and the address of its health check."""

    role: AttackedRole
    process: TurnlogProcess
    health: str


@dataclass(repr=False, kw_only=True)
class AttackedService:
    """A running service that tests attack."""

    folder: Path
    machine: ProcessHost
    server: NatsServer
    provider: OpenAIServer
    service: LiveService
    places: Mapping[str, str]
    network: Mapping[AttackedRole, FaultProxy]
    """The proxy between NATS and the processes of each role."""
    running: list[RunningRole] = field(default_factory=list["RunningRole"])
    dead: set[int] = field(default_factory=set[int])
    """Ids of the processes whose death was waited for."""

    @property
    def database(self) -> str:
        return self.places["TURNLOG_DATABASE_URL"]

    @property
    def port(self) -> int:
        port = self.service.http.base_url.port
        assert port is not None
        return port

    async def start_role(
        self, role: AttackedRole, variables: Mapping[str, str] = NO_VARIABLES
    ) -> RunningRole:
        """Start one more process of a role, with additional settings."""
        files = {CRASH_AT: self._get_point_file(role), CLOCK_AHEAD: self.folder / f"{role}.clock"}
        named = {name: str(file) for name, file in files.items()}
        place = (
            self.places["TURNLOG_HTTP"] if role == "gateway" else f"127.0.0.1:{find_free_port()}"
        )
        health = {} if role == "gateway" else {"TURNLOG_HEALTH": place}
        # A restarted server has its monitor on another port.
        monitor = self.server.monitor_url or ""
        way = {"TURNLOG_NATS_URL": self.network[role].url, "TURNLOG_NATS_MONITOR": monitor}
        process = await self.machine.start_process(
            *("run", role),
            output_file=self.folder / f"{role}.log",
            variables={"PYTHONPATH": str(CRASH_FOLDER), **way, **named, **health, **variables},
        )
        running = RunningRole(role, process, f"http://{place}")
        self.running.append(running)
        return running

    async def wait_until_ready(self) -> None:
        """Wait until every process can do its work."""
        async with asyncio.timeout(SERVICE_TIMEOUT):
            for each in tuple(self.running):
                while not await self._is_role_ready(each):
                    code = each.process.returncode
                    assert code is None, f"{each.role} ended with {code}"
                    await asyncio.sleep(POLL_INTERVAL)

    async def start_missing(self) -> None:
        """Restart the processes that were killed, and wait until all can do their work."""
        for each in tuple(self.running):
            if each.process.returncode is not None:
                self.running.remove(each)
                await self.start_role(each.role)
        await self.wait_until_ready()

    async def _is_role_ready(self, running: RunningRole) -> bool:
        with suppress(httpx.TransportError):
            return (await self.service.http.get(f"{running.health}/readyz")).is_success
        return False

    def list_processes(self, *roles: AttackedRole) -> list[TurnlogProcess]:
        """List the processes of some roles."""
        return [each.process for each in self.running if each.role in roles]

    def get_process(self, role: AttackedRole) -> TurnlogProcess:
        """Return the first process of a role."""
        return self.list_processes(role)[0]

    def set_kill_point(self, role: AttackedRole, point: str) -> None:
        """Have a process of a role kill itself when it next passes a point."""
        self._write_point(role, signal.SIGKILL, point)

    def set_stop_point(self, role: AttackedRole, point: str) -> None:
        """Have a process of a role stop itself at a point, until it gets SIGCONT."""
        self._write_point(role, signal.SIGSTOP, point)

    def _write_point(self, role: AttackedRole, number: signal.Signals, point: str) -> None:
        half = self.folder / f"{role}.half"
        half.write_text(f"{number.name} {point}")
        half.replace(self._get_point_file(role))

    def remove_unmet_point(self, role: AttackedRole) -> bool:
        """Remove the point of a role; tell whether no process had reached it."""
        try:
            self._get_point_file(role).unlink()
        except FileNotFoundError:
            return False
        return True

    async def wait_for_death(self, role: AttackedRole) -> TurnlogProcess:
        """Wait until a process of a role has killed itself that was not waited for before."""
        async with asyncio.timeout(SERVICE_TIMEOUT):
            while True:
                for process in self.list_processes(role):
                    if process.returncode is not None and process.pid not in self.dead:
                        assert process.returncode == KILLED_EXIT_CODE, process.describe_output()
                        self.dead.add(process.pid)
                        return process
                await asyncio.sleep(POLL_INTERVAL)

    async def wait_for_stop(self, role: AttackedRole) -> TurnlogProcess:
        """Wait until a process of a role has stopped itself."""
        async with asyncio.timeout(SERVICE_TIMEOUT):
            while True:
                for process in self.list_processes(role):
                    if _is_stopped(process.pid):
                        return process
                await asyncio.sleep(POLL_INTERVAL)

    async def kill_processes(self, *processes: TurnlogProcess) -> None:
        """Kill processes and wait for their exit."""
        for process in processes:
            process.kill_process()
        await asyncio.gather(*(process.wait_for_exit() for process in processes))

    async def kill_nats(self) -> None:
        os.kill(self.server.pid, signal.SIGKILL)
        await self.server.wait_for_exit()

    def set_clock(self, role: AttackedRole, ahead: float) -> None:
        """Set the clocks of a role ahead by so many seconds, or back."""
        (self.folder / f"{role}.clock").write_text(str(ahead))

    def _get_point_file(self, role: AttackedRole) -> Path:
        return self.folder / f"{role}.point"


def _is_stopped(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] == "T"


@asynccontextmanager
async def run_attacked_service(
    folder: Path, settings: Mapping[str, str] = NO_VARIABLES
) -> AsyncGenerator[AttackedService]:
    """Run the service; every process that still runs at the end must exit with 0.

    Nothing may have held the event loop of any process for long, whatever was done to it.
    """
    port = find_free_port()
    async with (
        OpenAIServer(AgentAnswer(EchoAnswer(pace=0.002))) as provider,
        await NatsServer.start(NatsConfig(data_dir=folder / "nats", monitor=True)) as server,
        connect_service(f"http://127.0.0.1:{port}", server.url) as service,
    ):
        places = {
            "TURNLOG_DATABASE_URL": f"sqlite:///{folder / 'read-models.db'}",
            "TURNLOG_HTTP": f"127.0.0.1:{port}",
            "TURNLOG_ACK_WAIT": str(ACK_WAIT),
        }
        variables = {**build_settings(provider), **places, **settings}
        async with (
            run_role_proxies(server.url) as network,
            run_process_host(folder, variables) as host,
        ):
            attacked = AttackedService(
                folder=folder,
                machine=host,
                server=server,
                provider=provider,
                service=service,
                places=places,
                network=network,
            )
            for role in STARTED_ROLES:
                await attacked.start_role(role)
            await attacked.wait_until_ready()
            yield attacked
    assert_loop_free(*(folder / f"{role}.log" for role in sorted(set(STARTED_ROLES))))


@asynccontextmanager
async def run_role_proxies(server_url: str) -> AsyncGenerator[Mapping[AttackedRole, FaultProxy]]:
    """Run a proxy between NATS and the processes of each role."""
    async with (
        run_fault_proxy(server_url) as gateway,
        run_fault_proxy(server_url) as projector,
        run_fault_proxy(server_url) as worker,
    ):
        yield {"gateway": gateway, "projector": projector, "worker": worker}


ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class BackgroundService:
    """An attacked service on an event loop in a thread, for tests without a loop of their own.

    Hypothesis runs its rules one after another and without a loop; the provider and the watchers
    must continue between the rules.
    """

    service: AttackedService
    loop: asyncio.AbstractEventLoop

    def run_work(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run a coroutine on the service's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def start_work(self, work: Coroutine[Any, Any, ResultT]) -> Future[ResultT]:
        """Start a coroutine on the service's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)


@contextmanager
def run_background_service(folder: Path) -> Generator[BackgroundService]:
    """Run a service while the body runs."""
    future: Future[BackgroundService] = Future()
    over = asyncio.Event()

    async def hold() -> None:
        async with run_attacked_service(folder) as at:
            future.set_result(BackgroundService(at, asyncio.get_running_loop()))
            await over.wait()

    ended: Future[None] = Future()

    def live() -> None:
        try:
            asyncio.run(hold())
        except BaseException as raised:  # noqa: BLE001 - raised where the test is
            (ended if future.done() else future).set_exception(raised)
        else:
            ended.set_result(None)

    threading.Thread(target=live, name="site", daemon=True).start()
    stage = future.result()
    try:
        yield stage
    finally:
        stage.loop.call_soon_threadsafe(over.set)
        ended.result()
