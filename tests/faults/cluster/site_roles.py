"""The roles of a site under supervision: a process that ends by itself is started again.

That is what production does with a process that exits. Each such exit is recorded, because a
fault that a role survives by ending is another one than a fault that it survives.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import httpx
from pydantic import BaseModel, ValidationError

from tests.support.processes.process_host import EXIT_TIMEOUT, ProcessHost, find_free_port
from tests.support.processes.turnlog_process import TurnlogProcess

RoleName = Literal["gateway", "worker", "projector"]

RESTART_DELAY: Final = 1.0
"""Seconds from an exit to the next start, as supervisors wait."""


class PartHealth(BaseModel):
    ready: bool
    detail: str | None


class ReadinessReport(BaseModel):
    """What `/readyz` of a role says."""

    ready: bool
    parts: dict[str, PartHealth]

    def list_faults(self) -> list[str]:
        """Return what is wrong with each part that is not ready."""
        return [f"{name}: {part.detail}" for name, part in self.parts.items() if not part.ready]


@dataclass(kw_only=True)
class SupervisedRole:
    """A role, over all its processes."""

    role: RoleName
    name: str
    machine: ProcessHost
    output_file: Path
    address: str
    """Host and port of its HTTP or its health endpoint."""
    variables: Mapping[str, str]
    unexpected_exits: list[int] = field(default_factory=list[int])
    """The codes of the exits that nobody asked for; after each it was started again."""
    _process: TurnlogProcess | None = None
    _supervision: asyncio.Task[None] | None = None
    _is_unwanted: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    @property
    def process(self) -> TurnlogProcess:
        """The last process that was started."""
        assert self._process is not None
        return self._process

    async def start_supervised(self) -> None:
        """Start a process, and another one after each exit until it is ended here."""
        assert self._supervision is None, f"{self.name} runs"
        self._is_unwanted.clear()
        await self._start_process()
        self._supervision = asyncio.create_task(self._restart_after_exits())

    async def end_supervised(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it by a signal, for good; one that asks must make it exit with 0."""
        if self._supervision is None:
            return
        self._is_unwanted.set()
        was_running = self.process.returncode is None
        self.process.send_signal(number)
        await asyncio.wait({self._supervision}, timeout=EXIT_TIMEOUT)
        self.process.kill_process()  # It has ended, unless it hangs.
        await self._supervision
        self._supervision = None
        if was_running and number == signal.SIGTERM:
            # A process that has only just started does not handle the signal yet.
            assert self.process.returncode in {0, -number}, self.process.describe_output()

    async def fetch_readiness(self, http: httpx.AsyncClient) -> ReadinessReport | None:
        """Return what it says about its parts, or None if it does not answer."""
        try:
            answer = await http.get(f"{self.url}/readyz")
            return ReadinessReport.model_validate_json(answer.content)
        except (httpx.HTTPError, ValidationError):
            return None

    def read_output(self) -> str:
        """Return everything that its processes wrote."""
        return self.output_file.read_text(errors="replace") if self.output_file.exists() else ""

    async def _start_process(self) -> None:
        self._process = await self.machine.start_process(
            "run", self.role, output_file=self.output_file, variables=self.variables
        )

    async def _restart_after_exits(self) -> None:
        while True:
            code = await self.process.wait_for_exit()
            if not self._is_unwanted.is_set():
                self.unexpected_exits.append(code)
                await _wait_at_most(self._is_unwanted, RESTART_DELAY)
            if self._is_unwanted.is_set():
                return
            await self._start_process()


async def _wait_at_most(event: asyncio.Event, seconds: float) -> None:
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({waiting}, timeout=seconds)
    waiting.cancel()


@dataclass
class RoleSet:
    """The roles of a site, and the settings that each has besides those of all."""

    machine: ProcessHost
    members: list[SupervisedRole] = field(default_factory=list[SupervisedRole])

    def create_role(self, role: RoleName, variables: Mapping[str, str]) -> SupervisedRole:
        """Create one more process of a role, on an address of its own, without starting it."""
        number = 1 + sum(member.role == role for member in self.members)
        name = f"{role}-{number}"
        address = f"127.0.0.1:{find_free_port()}"
        place = {"TURNLOG_HTTP" if role == "gateway" else "TURNLOG_HEALTH": address}
        created = SupervisedRole(
            role=role,
            name=name,
            machine=self.machine,
            output_file=self.machine.folder / f"{name}.log",
            address=address,
            variables={**variables, **place},
        )
        self.members.append(created)
        return created

    def list_roles(self, *roles: RoleName) -> list[SupervisedRole]:
        return [member for member in self.members if member.role in roles]

    def forget_exits(self) -> None:
        """Forget which processes ended until now."""
        for member in self.members:
            member.unexpected_exits.clear()

    async def start_all(self) -> None:
        await asyncio.gather(*(member.start_supervised() for member in self.members))

    async def end_all(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End all roles by a signal."""
        await asyncio.gather(*(member.end_supervised(number) for member in self.members))


@asynccontextmanager
async def run_role_set(machine: ProcessHost) -> AsyncGenerator[RoleSet]:
    """Supervise roles while the body runs; those that still run at the end must exit with 0."""
    roles = RoleSet(machine)
    try:
        yield roles
    finally:
        await roles.end_all()
