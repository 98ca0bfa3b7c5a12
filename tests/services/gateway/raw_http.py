"""HTTP requests built by hand, for requests that no client library sends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """One response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:  # noqa: ANN401 - JSON of any shape
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Wire:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, *pieces: bytes) -> None:
        """Send bytes, flushing after each piece."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def begin(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        """Send the head of a request."""
        lines = [f"{method} {path} HTTP/1.1", "Host: gateway"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def answer(self) -> RawAnswer:
        """Read one response that has a Content-Length."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split()[1])
        pairs = (line.split(":", 1) for line in head[1:] if line)
        headers = {name.lower(): value.strip() for name, value in pairs}
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return RawAnswer(status, headers, body)

    async def closed(self) -> bool:
        """Wait for the peer to close; return false if it sent anything more."""
        return await self.reader.read() == b""


@asynccontextmanager
async def wire(address: str) -> AsyncGenerator[Wire]:
    place = urlsplit(address)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.close()


async def sent(address: str, path: str, body: bytes, headers: Mapping[str, str]) -> RawAnswer:
    async with wire(address) as line:
        await line.begin("POST", path, headers)
        await line.send(body)
        return await line.answer()
