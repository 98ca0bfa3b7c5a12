"""Three replicating nats-servers on loopback, for tests that need a cluster."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.processes.process_host import find_free_port
from turnlog.services.platform.nats_server import find_server_binary

CONFIG = """\
listen: 127.0.0.1:{port}
server_name: n{number}
jetstream {{
  store_dir: "{folder}"
}}
authorization {{
  user: turnlog
  password: secret
}}
cluster {{
  name: turnlog
  listen: 127.0.0.1:{route}
  routes: [{routes}]
}}
"""


@dataclass
class NatsCluster:
    """Running servers by name: n0, n1, n2."""

    folder: Path
    ports: list[int]
    running: dict[str, asyncio.subprocess.Process] = field(
        default_factory=dict[str, asyncio.subprocess.Process]
    )

    @property
    def url(self) -> str:
        return ",".join(f"nats://turnlog:secret@127.0.0.1:{port}" for port in self.ports[:3])

    def find_url(self, name: str) -> str:
        """Return the URL of one server."""
        return self.url.split(",")[int(name[1:])]

    async def start_servers(self) -> None:
        routes = ", ".join(f'"nats://127.0.0.1:{route}"' for route in self.ports[3:])
        for number in range(3):
            config = self.folder / f"n{number}.conf"
            config.write_text(
                CONFIG.format(
                    number=number,
                    port=self.ports[number],
                    folder=self.folder / f"n{number}",
                    route=self.ports[3 + number],
                    routes=routes,
                )
            )
            command = [
                str(find_server_binary()),
                "-c",
                str(config),
                "-l",
                str(config.with_suffix(".log")),
            ]
            self.running[f"n{number}"] = await asyncio.create_subprocess_exec(*command)

    async def kill_server(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        await process.wait()


@asynccontextmanager
async def start_cluster(folder: Path) -> AsyncGenerator[NatsCluster]:
    cluster = NatsCluster(folder, [find_free_port() for _ in range(6)])
    await cluster.start_servers()
    try:
        yield cluster
    finally:
        for name in tuple(cluster.running):
            await cluster.kill_server(name)
