"""The containers of the compose files as local processes, with their own commands and variables.

Each container has an address of its own, in a network of 127.0.0.0/8 that the host has for itself,
so that ports are those of the files. Only places are replaced: names and addresses by the
container's, mounted files and folders by local copies. A process gets only the variables of the
files and those of any container, so that a setting or a mount that is missing from the files is
missing here too.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import re
import secrets
import shutil
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.deploy.compose_file import ROOT, SECRETS, ComposeService, parse_duration
from tests.deploy.name_server import NameServer, run_name_server

BIN = Path(sys.executable).parent
"""The environment's programs, which come first in the image's PATH."""

PROGRAM_PATH = f"{BIN}:{os.defpath}:/usr/sbin"
"""Where a container's commands are found."""

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

HEALTH_INTERVAL = 0.6
"""Seconds between two health checks, each of which is a process that has to start."""

COMMAND_TIMEOUT = 120.0
"""Seconds until a start, or a command that should end by itself, counts as hanging."""

NAME_SERVER_PORT = 10_053

POSTGRES_URL = f"postgresql://turnlog:{SECRETS['POSTGRES_PASSWORD']}@postgres:5432/turnlog"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposeContainer:
    """A running container of a service; `address` is its own."""

    service: ComposeService
    name: str
    address: str
    process: asyncio.subprocess.Process
    log_file: Path

    def read_log(self) -> str:
        return self.log_file.read_text()


@dataclass(repr=False, kw_only=True)
class ComposeHost:
    """A machine that runs the services of the compose files, each in any number."""

    folder: Path
    services: Mapping[str, ComposeService]
    database: str
    """URL of the Postgres that is there."""
    network: str
    """The first three numbers of its addresses."""
    name_server: NameServer = field(default_factory=NameServer)
    programs: Path = BIN
    """Where commands are found first."""
    places: dict[str, str] = field(default_factory=dict[str, str])
    """Further texts of the files, each with the local one."""
    running: list[ComposeContainer] = field(default_factory=list[ComposeContainer])

    @property
    def home(self) -> Path:
        """Working directory and home, where nothing may be written."""
        return self.folder / "home"

    def get_address(self, service: str, number: int = 1) -> str:
        """Return the address of a service's container."""
        position = list(self.services).index(service)
        return f"{self.network}.{10 * (position + 1) + number}"

    async def start_service(self, name: str, number: int = 1) -> ComposeContainer:
        """Start a container of a service, and wait until it is healthy, or has done its work."""
        container = await self._start_container(self.services[name], number)
        if container.service.is_job:
            async with asyncio.timeout(COMMAND_TIMEOUT):
                assert await container.process.wait() == 0, container.read_log()
            return container
        self.running.append(container)
        async with asyncio.timeout(COMMAND_TIMEOUT):
            await self._wait_until_healthy(container, number)
        self.name_server.addresses.setdefault(name, []).append(container.address)
        return container

    async def start_services(self, **scale: int) -> None:
        """Start services, each after those it depends on; `scale` is how many containers of each.

        Services that do not depend on one another start at the same time. Jobs that they wait for
        are done first.
        """
        needed = {job for name in scale for job in self.services[name].dependencies - set(scale)}
        jobs = {name for name in needed if self.services[name].is_job}
        scale |= dict.fromkeys(jobs, 1)
        waiting = set(scale)
        while waiting:
            due = {each for each in waiting if not self.services[each].dependencies & waiting}
            async with asyncio.TaskGroup() as starts:
                for name in sorted(due):
                    for number in range(1, scale[name] + 1):
                        starts.create_task(self.start_service(name, number))
            waiting -= due

    def get_container(self, service: str, number: int = 1) -> ComposeContainer:
        """Return a running container of a service."""
        name = f"{service}-{number}"
        return next(each for each in self.running if each.name == name)

    async def run_command(self, service: ComposeService, command: list[str]) -> tuple[int, str]:
        """Run a command within a container of a service; return its exit code and its output."""
        process = await self._spawn(service, 1, command, asyncio.subprocess.PIPE)
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT):
                output, _ = await process.communicate()
        except BaseException:
            process.kill()
            await process.wait()
            raise
        assert process.returncode is not None
        return process.returncode, output.decode()

    async def kill_container(self, container: ComposeContainer) -> None:
        """End a container without a word, as the kernel does where memory is short."""
        self._forget(container)
        if container.process.returncode is None:
            container.process.kill()
        await container.process.wait()

    async def stop_container(self, container: ComposeContainer) -> None:
        """Stop a container as compose does; it must end in time, with 0."""
        self._forget(container)
        stanza = container.service.stanza
        if container.process.returncode is None:
            container.process.send_signal(signal.Signals[stanza.get("stop_signal", "SIGTERM")])
        async with asyncio.timeout(parse_duration(stanza["stop_grace_period"])):
            code = await container.process.wait()
        assert code == 0, f"{container.name}: {code}\n{container.read_log()}"

    def _forget(self, container: ComposeContainer) -> None:
        """Take a container out of the names, as Docker does when it ends."""
        self.running.remove(container)
        addresses = self.name_server.addresses.get(container.service.name, [])
        if container.address in addresses:
            addresses.remove(container.address)

    async def stop_containers(self) -> None:
        """Stop every container, each before those it depends on."""
        while self.running:
            needed = {name for each in self.running for name in each.service.dependencies}
            due = [each for each in self.running if each.service.name not in needed]
            await asyncio.gather(*map(self.stop_container, due))

    async def _start_container(self, service: ComposeService, number: int) -> ComposeContainer:
        name = f"{service.name}-{number}"
        log_file = self.folder / f"{name}.log"
        with log_file.open("ab") as log:
            process = await self._spawn(service, number, service.command, log.fileno())
        address = self.get_address(service.name, number)
        return ComposeContainer(
            service=service, name=name, address=address, process=process, log_file=log_file
        )

    async def _spawn(
        self, service: ComposeService, number: int, command: list[str], output: int
    ) -> asyncio.subprocess.Process:
        files = _ContainerFiles(self, service, number)
        files.write_mounts()
        variables = {name: files.replace(value) for name, value in service.environment.items()}
        return await asyncio.create_subprocess_exec(
            *map(files.replace, command),
            cwd=self.home,
            env={"PATH": f"{self.programs}:{PROGRAM_PATH}", "HOME": str(self.home), **variables},
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def _wait_until_healthy(self, container: ComposeContainer, number: int) -> None:
        files = _ContainerFiles(self, container.service, number)
        command = [files.replace(word) for word in container.service.health_command]
        while await self._check_health(command):
            assert container.process.returncode is None, container.read_log()
            await asyncio.sleep(HEALTH_INTERVAL)

    async def _check_health(self, command: list[str]) -> int:
        nowhere = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *command, env={"PATH": PROGRAM_PATH}, stdout=nowhere, stderr=nowhere
        )
        return await process.wait()


@dataclass(frozen=True, slots=True)
class _Mount:
    """A file or a folder of the repository, or a named volume, which has no source."""

    target: str
    source: Path | None
    local: Path


@dataclass(frozen=True, slots=True)
class _ContainerFiles:
    """What a container has instead of the places of the compose files."""

    host: ComposeHost
    service: ComposeService
    number: int

    @property
    def folder(self) -> Path:
        return self.host.folder / f"{self.service.name}-{self.number}"

    def replace(self, text: str) -> str:
        """Replace every place in a text, each once."""
        places = self._list_places()
        longest_first = sorted(places, key=len, reverse=True)
        pattern = "|".join(map(re.escape, longest_first))
        return re.sub(pattern, lambda found: places[found[0]], text)

    def write_mounts(self) -> None:
        """Create what is mounted: copies of files with their places replaced, and folders."""
        (self.folder / "tmp").mkdir(parents=True, exist_ok=True)
        for mount in self._list_mounts():
            if mount.source is None:
                mount.local.mkdir(parents=True, exist_ok=True)
            elif mount.source.is_dir():
                shutil.copytree(mount.source, mount.local, dirs_exist_ok=True)
                for copy in mount.local.glob("*.conf"):
                    copy.write_text(self.replace(copy.read_text()))
            else:
                mount.local.parent.mkdir(parents=True, exist_ok=True)
                mount.local.write_text(self.replace(mount.source.read_text()))

    def _list_mounts(self) -> list[_Mount]:
        mounts: list[_Mount] = []
        for volume in self.service.stanza.get("volumes", []):
            source, target = volume.removesuffix(":ro").split(":")
            if source.startswith("./"):
                mounts.append(_Mount(target, ROOT / source, self.folder / target.lstrip("/")))
            else:
                mounts.append(_Mount(target, None, self.host.folder / "volumes" / source))
        return mounts

    def _list_places(self) -> dict[str, str]:
        own = self.host.get_address(self.service.name, self.number)
        peers = {
            f"{mark}{name}:": f"{mark}{self.host.get_address(name)}:"
            for name in self.host.services
            for mark in ("@", "http://")
        }
        return {
            **peers,
            **{mount.target: str(mount.local) for mount in self._list_mounts()},
            "0.0.0.0:": f"{own}:",
            "127.0.0.1:": f"{own}:",
            "listen 8080;": f"listen {own}:8080;",
            "resolver 127.0.0.11 ": f"resolver {self.host.network}.253:{NAME_SERVER_PORT} ",
            # A loopback address connects to another one from the first.
            **{
                options["ipv4_address"]: "127.0.0.1"
                for each in self.host.services.values()
                for options in each.networks.values()
                if "ipv4_address" in options
            },
            "/tmp/": f"{self.folder}/tmp/",  # noqa: S108 - the container's
            # Here it may be root, and its own processes would not be.
            "daemon off;": f"daemon off;\nuser {getpass.getuser()};",
            POSTGRES_URL: self.host.database,
            **self.host.places,
        }


def find_free_network() -> str:
    """Return the first three numbers of a network of loopback; skip where there is none."""
    network = f"127.{secrets.choice(range(1, 255))}.{secrets.choice(range(1, 255))}"
    with socket.socket() as bound:
        try:
            bound.bind((f"{network}.1", 0))
        except OSError:
            pytest.skip("this system has one address of loopback")
    return network


@asynccontextmanager
async def run_compose_host(
    folder: Path, services: Mapping[str, ComposeService], database: str = ""
) -> AsyncGenerator[ComposeHost]:
    """Run a machine, on which nothing is started yet; no process of it outlives the body."""
    host = ComposeHost(
        folder=folder, services=services, database=database, network=find_free_network()
    )
    host.home.mkdir()
    async with run_name_server(host.name_server, (f"{host.network}.253", NAME_SERVER_PORT)):
        try:
            yield host
            await host.stop_containers()
        finally:
            for container in list(host.running):
                await host.kill_container(container)
    assert list(host.home.iterdir()) == []
