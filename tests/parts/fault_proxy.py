"""A TCP proxy between a client and a NATS server that can lose what the server says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class FaultProxy:
    """Passes everything on until told otherwise."""

    def __init__(self, server_url: str) -> None:
        self._server = urlsplit(server_url)
        self._open: set[asyncio.StreamWriter] = set()
        self._deaf = False
        self._loses_next = False
        self.url = ""

    def lose_next_answer(self) -> None:
        """Lose the next thing the server says, and nothing more."""
        self._loses_next = True

    def deafen(self) -> None:
        """Lose what the server says from now on; what the client says still arrives."""
        self._deaf = True

    def heal(self) -> None:
        """Cut what is open, since it has holes now, and pass everything on again."""
        self._deaf = False
        self.cut()

    def cut(self) -> None:
        """Cut every open connection."""
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
        with suppress(OSError):
            server, forth = await asyncio.open_connection(host, port)
            self._open |= {back, forth}
            await asyncio.gather(
                self._pass(client, forth, loses=False), self._pass(server, back, loses=True)
            )

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, loses: bool
    ) -> None:
        with suppress(OSError):
            while heard := await reader.read(65_536):
                if loses and self._loses_next:
                    self._loses_next = False
                elif not (loses and self._deaf):
                    writer.write(heard)
                    await writer.drain()
        writer.close()


@asynccontextmanager
async def between(server_url: str) -> AsyncGenerator[FaultProxy]:
    """Run a proxy in front of a server."""
    async with FaultProxy(server_url).running() as proxy:
        yield proxy
