"""HTTP requests built by hand, for requests that no client library sends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class RawResponse:
    """One response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def parse_json(self) -> Any:  # noqa: ANN401 - JSON of any shape
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class RawConnection:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send_bytes(self, *pieces: bytes) -> None:
        """Send bytes, flushing after each piece; a peer that has closed takes no more."""
        with suppress(ConnectionError):
            for piece in pieces:
                self.writer.write(piece)
                await self.writer.drain()

    async def send_head(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        """Send the head of a request."""
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await self.send_bytes("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def read_response(self) -> RawResponse:
        """Read one response that has a Content-Length."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split()[1])
        pairs = (line.split(":", 1) for line in head[1:] if line)
        headers = {name.lower(): value.strip() for name, value in pairs}
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return RawResponse(status, headers, body)

    async def is_closed(self) -> bool:
        """Wait for the peer to close; return false if it sent anything more."""
        return await self.reader.read() == b""


class _ResponseProtocol(asyncio.StreamReaderProtocol):
    """Keeps the response that came before the peer reset the connection.

    A peer that answers and closes before the whole request has come resets the connection.
    """

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - of asyncio
        """End the stream without an error, which would hide what is not read yet."""
        super().connection_lost(None)


@asynccontextmanager
async def open_raw_connection(address: str) -> AsyncGenerator[RawConnection]:
    place, loop = urlsplit(address), asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = _ResponseProtocol(reader)
    transport, _ = await loop.create_connection(
        lambda: protocol, place.hostname or "", place.port or 0
    )
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    try:
        yield RawConnection(reader, writer)
    finally:
        writer.close()


async def post_raw(address: str, path: str, body: bytes, headers: Mapping[str, str]) -> RawResponse:
    async with open_raw_connection(address) as line:
        await line.send_head("POST", path, headers)
        await line.send_bytes(body)
        return await line.read_response()
