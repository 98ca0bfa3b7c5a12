"""Hosts behind proxies on loopback, for machines where no namespaces can be made.

Each port of a node has a proxy, and the node announces the proxy's address to clients and to other
nodes. While a host is cut off, its proxies accept connections and pass nothing on, in neither
direction, not even that a connection was closed. What was sent meanwhile arrives when the host is
back, as a network sends again what was not acknowledged.

A node also connects to the others, through their proxies. Such a connection has a host at both
ends; which one made it is read from what that node sends first, which contains its name.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from tests.support.servers.nats_cluster import NodePlace, choose_loopback_endpoints
from turnlog.events.async_tasks import cancel_tasks

CHUNK_BYTES: Final = 65_536

ROUTE_GREETING: Final = re.compile(rb'"server_name":"n(\d)"')
"""In what a node sends first when it connects to another."""


@dataclass(frozen=True, slots=True)
class ProxiedHost:
    """A host that can be reached while `is_reachable` is set."""

    place: NodePlace
    is_reachable: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class ProxiedPort:
    """The address by which others reach a port, and the one on which the node listens."""

    address: str
    server: str
    is_route: bool = False
    """Whether other nodes connect there."""


@dataclass(frozen=True, slots=True)
class ProxiedNetwork:
    """The hosts, and the connections between them."""

    hosts: Sequence[ProxiedHost]
    _connections: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    @property
    def places(self) -> Sequence[NodePlace]:
        """See `SiteNetwork`."""
        return [host.place for host in self.hosts]

    async def cut_off_host(self, number: int) -> None:
        """See `SiteNetwork`."""
        self.hosts[number].is_reachable.clear()

    async def reconnect_host(self, number: int) -> None:
        """See `SiteNetwork`."""
        self.hosts[number].is_reachable.set()

    @asynccontextmanager
    async def run_proxy(self, number: int, port: ProxiedPort) -> AsyncGenerator[None]:
        """Serve a port of a host while the body runs."""

        def start(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = ProxiedConnection(self.hosts, {number}, is_peer_known=not port.is_route)
            task = asyncio.create_task(connection.serve(port.server, reader, writer))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

        listener = await asyncio.start_server(start, *_split_address(port.address))
        try:
            yield
        finally:
            listener.close()
            await cancel_tasks(*self._connections)


@dataclass(slots=True)
class ProxiedConnection:
    """One connection, and the hosts at its ends as far as they are hosts of the site."""

    hosts: Sequence[ProxiedHost]
    ends: set[int]
    is_peer_known: bool
    """Whether both ends are known; a client of a node is no host of the site."""

    async def serve(
        self, server: str, client: asyncio.StreamReader, back: asyncio.StreamWriter
    ) -> None:
        """Forward both directions until both have ended."""
        forth: asyncio.StreamWriter | None = None
        try:
            await self._wait_until_reachable()
            with suppress(OSError):
                reader, forth = await asyncio.open_connection(*_split_address(server))
                await asyncio.gather(
                    self._forward_data(client, forth, self._find_peer),
                    self._forward_data(reader, back, lambda _: None),
                )
        finally:
            for writer in filter(None, (back, forth)):
                writer.transport.abort()

    async def _forward_data(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        look: Callable[[bytes], None],
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                look(data)
                await self._wait_until_reachable()
                writer.write(data)
                await writer.drain()
        await self._wait_until_reachable()
        writer.close()

    def _find_peer(self, data: bytes) -> None:
        if not self.is_peer_known and (greeting := ROUTE_GREETING.search(data)):
            self.ends.add(int(greeting[1]))
            self.is_peer_known = True

    async def _wait_until_reachable(self) -> None:
        for end in tuple(self.ends):
            await self.hosts[end].is_reachable.wait()


@asynccontextmanager
async def run_proxies(count: int) -> AsyncGenerator[ProxiedNetwork]:
    """Run the proxies of each host while the body runs; all are reachable."""
    places = [
        NodePlace(listening=choose_loopback_endpoints(), reachable=choose_loopback_endpoints())
        for _ in range(count)
    ]
    network = ProxiedNetwork([ProxiedHost(place) for place in places])
    async with AsyncExitStack() as proxies:
        for number, place in enumerate(places):
            for port in _list_ports(place):
                await proxies.enter_async_context(network.run_proxy(number, port))
            await network.reconnect_host(number)
        yield network


def _list_ports(place: NodePlace) -> Sequence[ProxiedPort]:
    seen, own = place.reachable, place.listening
    return (
        ProxiedPort(seen.client, own.client),
        ProxiedPort(seen.route, own.route, is_route=True),
        ProxiedPort(seen.monitor, own.monitor),
    )


def _split_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
