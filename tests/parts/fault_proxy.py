"""A TCP proxy between a client and a NATS server that can lose or delay what either says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Literal
from urllib.parse import urlsplit

Speaker = Literal["client", "server"]


class FaultProxy:
    """Passes everything on until told otherwise."""

    def __init__(self, server_url: str) -> None:
        self._server = urlsplit(server_url)
        self._open: set[asyncio.StreamWriter] = set()
        self._lost: set[Speaker] = set()
        self._loses_next = False
        self._delay = 0.0
        self.url = ""

    def lose_next_answer(self) -> None:
        """Lose the next thing the server says, and nothing more."""
        self._loses_next = True

    def deafen(self) -> None:
        """Lose what the server says from now on; what the client says still arrives."""
        self._lost.add("server")

    def silence(self) -> None:
        """Lose what the client says from now on; connections stay open for both."""
        self._lost.add("client")

    def delay(self, seconds: float) -> None:
        """Pass on everything so much later."""
        self._delay = seconds

    def heal(self) -> None:
        """Cut what is open, since it has holes now, and pass everything on again."""
        self._lost.clear()
        self._delay = 0.0
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
