"""A TCP proxy between a client and a NATS server that can drop or delay either side's data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Literal
from urllib.parse import urlsplit

ProxySide = Literal["client", "server"]


class FaultProxy:
    """Forwards everything until a fault is set."""

    def __init__(self, server_url: str) -> None:
        self._server = urlsplit(server_url)
        self._open_writers: set[asyncio.StreamWriter] = set()
        self._dropped_sides: set[ProxySide] = set()
        self._drops_next = False
        self._delay = 0.0
        self._flows = asyncio.Event()
        self._flows.set()
        self.url = ""

    def drop_next_answer(self) -> None:
        """Drop the next data from the server, and only that."""
        self._drops_next = True

    def drop_server_data(self) -> None:
        """Drop everything from the server from now on; data from the client still arrives."""
        self._dropped_sides.add("server")

    def drop_client_data(self) -> None:
        """Drop everything from the client from now on; connections stay open on both sides."""
        self._dropped_sides.add("client")

    def swallow_data(self) -> None:
        """Take nothing from either side any more, as a host that has vanished."""
        self._flows.clear()

    def delay_data(self, seconds: float) -> None:
        """Delay everything by so many seconds."""
        self._delay = seconds

    def reset_faults(self) -> None:
        """Clear all faults, and cut the open connections because their streams have gaps."""
        self._dropped_sides.clear()
        self._delay = 0.0
        self._flows.set()
        self.cut_connections()

    def cut_connections(self) -> None:
        """Close every open connection."""
        for writer in self._open_writers:
            writer.close()
        self._open_writers.clear()

    @asynccontextmanager
    async def run_proxy(self) -> AsyncGenerator[FaultProxy]:
        listener = await asyncio.start_server(self._serve_connection, "127.0.0.1", 0)
        _, port = listener.sockets[0].getsockname()
        user = self._server.netloc.rpartition("@")[0]
        self.url = f"nats://{user}@127.0.0.1:{port}"
        try:
            yield self
        finally:
            listener.close()
            self.reset_faults()

    async def _serve_connection(
        self, client: asyncio.StreamReader, back: asyncio.StreamWriter
    ) -> None:
        host, port = self._server.hostname, self._server.port
        try:
            with suppress(OSError):
                server, forth = await asyncio.open_connection(host, port)
                self._open_writers |= {back, forth}
                await asyncio.gather(
                    self._forward_data(client, forth, "client"),
                    self._forward_data(server, back, "server"),
                )
        finally:
            back.close()

    async def _forward_data(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, speaker: ProxySide
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                await self._flows.wait()
                if self._delay:
                    await asyncio.sleep(self._delay)
                if speaker == "server" and self._drops_next:
                    self._drops_next = False
                elif speaker not in self._dropped_sides:
                    writer.write(data)
                    await writer.drain()
        writer.close()


@asynccontextmanager
async def run_fault_proxy(server_url: str) -> AsyncGenerator[FaultProxy]:
    """Run a proxy in front of a server."""
    async with FaultProxy(server_url).run_proxy() as proxy:
        yield proxy
