"""Three nats-servers that replicate, each of which a test stops, kills, empties and starts again.

A node keeps its addresses, its store and its log over all its runs. Where a node listens and where
others reach it are two things: a test may put a proxy, or a network of its own, in between. The
settings are those of `deploy/nats/cluster.conf`, except that a node announces its own address to
clients, as a server does by itself, and that a lame duck takes less time.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from tests.support.processes.process_host import POLL_INTERVAL, find_free_port
from turnlog.services.platform.nats_server import find_server_binary

NODE_COUNT: Final = 3

USER, PASSWORD = "turnlog", "secret"

START_TIMEOUT = 60.0
"""Seconds until a node that is not healthy counts as hanging."""

STOP_TIMEOUT = 60.0
"""Seconds until a node that does not exit counts as hanging; a lame duck sends its clients away."""

LAME_DUCK_SETTINGS: Final = ('lame_duck_duration: "30s"', 'lame_duck_grace_period: "1s"')
"""The shortest duration that the server takes; of few clients it sends one away each second."""

CONFIG: Final = """\
server_name: {name}
listen: "{listening.client}"
client_advertise: "{reachable.client}"
http: "{listening.monitor}"
max_payload: 4MB
{lame_duck}
jetstream {{
  store_dir: "{store}"
  {sync}
}}
authorization {{
  user: {user}
  password: {password}
}}
cluster {{
  name: turnlog
  listen: "{listening.route}"
  advertise: "{reachable.route}"
  ping_interval: "3s"
  routes: [{routes}]
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEndpoints:
    """Host and port of each service of a node."""

    client: str
    route: str
    monitor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlace:
    """Where a node runs."""

    listening: NodeEndpoints
    reachable: NodeEndpoints
    """By which others reach it."""
    command_prefix: tuple[str, ...] = ()
    """Words before its command that start it where it belongs."""


@dataclass(kw_only=True)
class NatsNode:
    """One server, over all its runs."""

    name: str
    folder: Path
    place: NodePlace
    peer_routes: Sequence[str]
    """The route addresses of all nodes, its own included."""
    syncs_always: bool = True
    _process: Process | None = None
    _watcher: Process | None = None

    @property
    def url(self) -> str:
        """With user and password."""
        return f"nats://{USER}:{PASSWORD}@{self.place.reachable.client}"

    @property
    def monitor_url(self) -> str:
        return f"http://{self.place.reachable.monitor}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def store(self) -> Path:
        return self.folder / self.name

    @property
    def log_file(self) -> Path:
        return self.folder / f"{self.name}.log"

    async def start_process(self) -> None:
        """Start the server on its store; it is not ready yet."""
        assert not self.is_running, self.name
        config = self._write_config()
        words = (str(find_server_binary()), "-c", str(config), "-l", str(self.log_file))
        self._process = await asyncio.create_subprocess_exec(
            *self.place.command_prefix, *words, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
        )
        self._watcher = await _start_watcher(self._process.pid)

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def wait_for_exit(self) -> None:
        """Wait until the server has ended."""
        assert self._process is not None
        async with asyncio.timeout(STOP_TIMEOUT):
            await self._process.wait()
        if self._watcher is not None:
            self._watcher.kill()
            await self._watcher.wait()
            self._watcher = None

    async def end_process(self, number: signal.Signals) -> None:
        """Send a signal that ends the server, and wait until it has ended."""
        self.send_signal(number)
        await self.wait_for_exit()

    async def is_healthy(self, http: httpx.AsyncClient) -> bool:
        """Return whether the cluster has a leader, and all streams of this node are current."""
        with suppress(httpx.HTTPError, ValueError):
            health = await http.get(f"{self.monitor_url}/healthz")
            facts = (await http.get(f"{self.monitor_url}/jsz")).json()
            return health.is_success and bool(facts.get("meta_cluster", {}).get("leader"))
        return False

    def remove_store(self) -> None:
        """Remove everything that a stopped server has stored."""
        assert not self.is_running, self.name
        shutil.rmtree(self.store)

    def _write_config(self) -> Path:
        config = self.folder / f"{self.name}.conf"
        text = CONFIG.format(
            name=self.name,
            listening=self.place.listening,
            reachable=self.place.reachable,
            store=self.store,
            sync="sync_interval: always" if self.syncs_always else "",
            user=USER,
            password=PASSWORD,
            lame_duck="\n".join(LAME_DUCK_SETTINGS),
            routes=", ".join(f'"nats-route://{route}"' for route in self.peer_routes),
        )
        config.write_text(text)
        return config


_WATCHER_SCRIPT = 'read -r _; kill -9 "$1"'


async def _start_watcher(pid: int) -> Process:
    """Start a process that kills a server when this one ends for any reason."""
    command = ("/bin/sh", "-c", _WATCHER_SCRIPT, "nats-node-watcher", str(pid))
    return await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True
    )


@dataclass(frozen=True, slots=True, repr=False)
class NatsCluster:
    """The nodes n0, n1 and n2."""

    nodes: Sequence[NatsNode] = field(default_factory=list[NatsNode])

    @property
    def url(self) -> str:
        """The URLs of all nodes, separated by commas."""
        return ",".join(node.url for node in self.nodes)

    def get_node(self, name: str) -> NatsNode:
        return next(node for node in self.nodes if node.name == name)

    def list_running_nodes(self) -> list[NatsNode]:
        return [node for node in self.nodes if node.is_running]

    async def start_missing_nodes(self) -> None:
        """Start all nodes that do not run, at once."""
        stopped = (node for node in self.nodes if not node.is_running)
        await asyncio.gather(*(node.start_process() for node in stopped))

    async def kill_server(self, name: str) -> None:
        await self.get_node(name).end_process(signal.SIGKILL)

    async def end_all_nodes(self, number: signal.Signals) -> None:
        """Send all running nodes a signal that ends them, and wait until they have ended."""
        running = self.list_running_nodes()
        for node in running:
            node.send_signal(number)
        await asyncio.gather(*(node.wait_for_exit() for node in running))

    async def wait_until_healthy(self) -> None:
        """Wait until each running node is."""
        async with asyncio.timeout(START_TIMEOUT), httpx.AsyncClient(timeout=5) as http:
            for node in self.list_running_nodes():
                while not await node.is_healthy(http):
                    assert node.is_running, f"{node.name} ended"
                    await asyncio.sleep(POLL_INTERVAL)


def build_cluster(folder: Path, places: Sequence[NodePlace]) -> NatsCluster:
    """Build a node for each place; none is started."""
    routes = [place.reachable.route for place in places]
    return NatsCluster(
        [
            NatsNode(name=f"n{number}", folder=folder, place=place, peer_routes=routes)
            for number, place in enumerate(places)
        ]
    )


@asynccontextmanager
async def run_cluster(cluster: NatsCluster) -> AsyncGenerator[NatsCluster]:
    """Run the nodes of a cluster while the body runs."""
    try:
        await cluster.start_missing_nodes()
        yield cluster
    finally:
        await cluster.end_all_nodes(signal.SIGKILL)


def choose_loopback_endpoints() -> NodeEndpoints:
    """Return three free ports of loopback."""
    client, route, monitor = (f"127.0.0.1:{find_free_port()}" for _ in range(3))
    return NodeEndpoints(client=client, route=route, monitor=monitor)


@asynccontextmanager
async def start_cluster(folder: Path) -> AsyncGenerator[NatsCluster]:
    """Run three nodes on loopback."""
    endpoints = [choose_loopback_endpoints() for _ in range(NODE_COUNT)]
    places = [NodePlace(listening=each, reachable=each) for each in endpoints]
    async with run_cluster(build_cluster(folder, places)) as cluster:
        yield cluster
