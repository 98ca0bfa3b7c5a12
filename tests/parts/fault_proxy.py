"""A TCP proxy between a client and a NATS server that can drop or delay either side's data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Literal
from urllib.parse import urlsplit

Speaker = Literal["client", "server"]


class FaultProxy:
    """Forwards everything until a fault is set."""

    def __init__(self, server_url: str) -> None:
        self._server = urlsplit(server_url)
        self._open: set[asyncio.StreamWriter] = set()
        self._lost: set[Speaker] = set()
        self._loses_next = False
        self._delay = 0.0
        self.url = ""

    def lose_next_answer(self) -> None:
        """Drop the next data from the server, and only that."""
        self._loses_next = True

    def deafen(self) -> None:
        """Drop everything from the server from now on; data from the client still arrives."""
        self._lost.add("server")

    def silence(self) -> None:
        """Drop everything from the client from now on; connections stay open on both sides."""
        self._lost.add("client")

    def delay(self, seconds: float) -> None:
        """Delay everything by so many seconds."""
        self._delay = seconds

    def heal(self) -> None:
        """Clear all faults, and cut the open connections because their streams have gaps."""
        self._lost.clear()
        self._delay = 0.0
        self.cut()

    def cut(self) -> None:
        """Close every open connection."""
        for writer in self._open:
            writer.close()
        self._open.clear()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[FaultProxy]:
        listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        _, port = listener.sockets[0].getsockname()
        user = self._server.netloc.rpartition("@")[0]
        self.url = f"nats://{user}@127.0.0.1:{port}"
        try:
            yield self
        finally:
            listener.close()
            self.cut()

    async def _serve(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        host, port = self._server.hostname, self._server.port
        try:
            with suppress(OSError):
                server, forth = await asyncio.open_connection(host, port)
                self._open |= {back, forth}
                await asyncio.gather(
                    self._pass(client, forth, "client"), self._pass(server, back, "server")
                )
        finally:
            back.close()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, speaker: Speaker
    ) -> None:
        with suppress(OSError):
            while heard := await reader.read(65_536):
                if self._delay:
                    await asyncio.sleep(self._delay)
                if speaker == "server" and self._loses_next:
                    self._loses_next = False
                elif speaker not in self._lost:
                    writer.write(heard)
                    await writer.drain()
        writer.close()


@asynccontextmanager
async def between(server_url: str) -> AsyncGenerator[FaultProxy]:
    """Run a proxy in front of a server."""
    async with FaultProxy(server_url).running() as proxy:
        yield proxy
