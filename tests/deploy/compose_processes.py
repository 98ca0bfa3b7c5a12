"""The services of docker-compose.yml as local processes, with their own commands and variables.

Only places are replaced: host names and ports by loopback, paths of the image by local paths. A
process gets only the variables of the file and those of any container, so that a setting missing
from the file is missing here too.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.deploy.compose_file import SECRETS, ComposeService, parse_duration
from tests.support.processes.process_host import find_free_port

BIN = Path(sys.executable).parent
"""The environment's programs, which come first in the image's PATH."""

HEALTH_INTERVAL = 0.3
"""Seconds between two health checks."""

COMMAND_TIMEOUT = 60.0
"""Seconds until a command that should end by itself counts as hanging."""


@dataclass(frozen=True, slots=True)
class ComposeHost:
    """A machine that runs services; `places` maps places of the file to local ones."""

    folder: Path
    places: Mapping[str, str]

    def replace_places(self, text: str) -> str:
        """Replace every place in a text."""
        for place, local in self.places.items():
            text = text.replace(place, local)
        return text

    @property
    def home(self) -> Path:
        """Working directory and home, where nothing may be written."""
        return self.folder / "home"

    def build_environment(self, service: ComposeService) -> dict[str, str]:
        """Return a service's variables and those of any container."""
        own = {name: self.replace_places(value) for name, value in service.environment.items()}
        return {"PATH": f"{BIN}:{os.defpath}", "HOME": str(self.home), **own}

    async def run_command(self, service: ComposeService, command: list[str]) -> int:
        """Run a command within a service and return its exit code."""
        process = await self._start_command(service, command)
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT):
                return await process.wait()
        except BaseException:
            process.kill()
            await process.wait()
            raise

    async def _start_command(
        self, service: ComposeService, command: list[str]
    ) -> asyncio.subprocess.Process:
        words = [self.replace_places(word) for word in command]
        with self.get_log_file(service).open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *words, cwd=self.home, env=self.build_environment(service), stdout=log, stderr=log
            )

    def get_log_file(self, service: ComposeService) -> Path:
        return self.folder / f"{service.name}.log"

    @asynccontextmanager
    async def run_service(self, service: ComposeService) -> AsyncGenerator[None]:
        """Start a service, wait until it is healthy, and stop it as compose does."""
        process = await self._start_command(service, service.command)
        try:
            await self._wait_until_healthy(service, process)
            yield
        except BaseException:
            process.kill()
            await process.wait()
            raise
        process.terminate()
        async with asyncio.timeout(parse_duration(service.stanza["stop_grace_period"])):
            code = await process.wait()
        assert code == 0, f"{service.name}: {code}\n{self.get_log_file(service).read_text()}"

    async def _wait_until_healthy(
        self, service: ComposeService, process: asyncio.subprocess.Process
    ) -> None:
        while "healthcheck" in service.stanza and await self.run_command(
            service, service.health_command
        ):
            assert process.returncode is None, self.get_log_file(service).read_text()
            await asyncio.sleep(HEALTH_INTERVAL)


def prepare_host(folder: Path, repository: Path, database: str) -> ComposeHost:
    """Prepare a machine whose Postgres is at `database`."""
    nats, monitor, http, worker, projector = (find_free_port() for _ in range(5))
    store = folder / "log"
    for made in (store, folder / "home"):
        made.mkdir()
    config = repository / "deploy/nats/nats.conf"
    places = {
        "0.0.0.0:4222": f"127.0.0.1:{nats}",
        "0.0.0.0:8222": f"127.0.0.1:{monitor}",
        "0.0.0.0:8700": f"127.0.0.1:{http}",
        "127.0.0.1:8222": f"127.0.0.1:{monitor}",
        "127.0.0.1:8700": f"127.0.0.1:{http}",
        "127.0.0.1:8701": f"127.0.0.1:{worker}",
        "127.0.0.1:8702": f"127.0.0.1:{projector}",
        "nats:4222": f"127.0.0.1:{nats}",
        "nats:8222": f"127.0.0.1:{monitor}",
        f"postgresql://turnlog:{SECRETS['POSTGRES_PASSWORD']}@postgres:5432/turnlog": database,
        "/etc/turnlog/nats.conf": str(folder / "nats.conf"),
        "/etc/turnlog/blueprints": str(repository / "deploy/blueprints"),
        "/var/lib/nats": str(store),
    }
    made_host = ComposeHost(folder, places)
    (folder / "nats.conf").write_text(made_host.replace_places(config.read_text()))
    return made_host
