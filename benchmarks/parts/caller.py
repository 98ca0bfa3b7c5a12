"""A minimal HTTP client that costs a fraction of what it measures.

It uses one connection for everything, and only the parts of HTTP/1.1 that Turnlog uses.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

from pydantic import JsonValue

from turnlog.events.store.ports import EventLog

FAILED = 400
LOOK_EVERY = 0.05
"""Seconds between two checks of a gateway that starts."""
END_OF_EVENTS = (b"event: done", b"event: failed", b"event: cancelled", b"event: redact")


@dataclass(frozen=True, slots=True)
class Caller:
    """An open connection to a gateway."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(
        self, method: str, path: str, body: Mapping[str, JsonValue] | None = None
    ) -> dict[str, JsonValue]:
        """Send a request and return the JSON of the answer; raises for an error status."""
        status, raw = await self.answer(method, path, body)
        if status >= FAILED:
            raise RuntimeError(raw.decode())
        return cast("dict[str, JsonValue]", json.loads(raw))

    async def answer(
        self, method: str, path: str, body: Mapping[str, JsonValue] | None = None
    ) -> tuple[int, bytes]:
        """Send a request and return status and body."""
        status, length = await self._head(method, path, body, "application/json")
        return status, await (self.reader.readexactly(length) if length else self._chunks())

    async def turn(self, session: str, text: str) -> None:
        """Submit a turn and watch it to its end."""
        async for _ in self.watched(session, text):
            pass

    async def watched(self, session: str, text: str) -> AsyncGenerator[bytes]:
        """Submit a turn and yield the lines of its stream; raises for any end but an answer."""
        path = f"/v1/sessions/{session}/turns"
        await self._head("POST", path, {"text": text}, "text/event-stream")
        line = b""
        while not line.startswith(END_OF_EVENTS):
            line = (await self.reader.readline()).strip()
            yield line
        if line != b"event: done":
            raise RuntimeError(line.decode())

    async def rest(self) -> None:
        """Read what follows the end of a stream, so that the connection can be reused."""
        while await self.reader.readline() != b"0\r\n":
            pass
        await self.reader.readline()

    async def _head(
        self, method: str, path: str, body: Mapping[str, JsonValue] | None, accept: str
    ) -> tuple[int, int]:
        """Send a request and read the answer's head: status and length, 0 when in chunks."""
        raw = json.dumps(body).encode() if body is not None else b""
        lines = [f"{method} {path} HTTP/1.1", "host: bench", f"accept: {accept}"]
        if raw:
            lines += ["content-type: application/json", f"content-length: {len(raw)}"]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + raw)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status, *fields = head.split("\r\n")
        named = dict(field.split(": ", 1) for field in fields if field)
        return int(status.split()[1]), int(named.get("content-length", 0))

    async def _chunks(self) -> bytes:
        raw = b""
        while size := int(await self.reader.readline(), 16):
            raw += await self.reader.readexactly(size)
            await self.reader.readline()
        await self.reader.readline()
        return raw


@asynccontextmanager
async def calling(http: str) -> AsyncGenerator[Caller]:
    """Connect to a gateway at its address."""
    place = urlsplit(http)
    assert place.hostname
    reader, writer = await asyncio.open_connection(place.hostname, place.port, limit=2**24)
    try:
        yield Caller(reader, writer)
    finally:
        writer.close()


async def awaited(http: str) -> None:
    """Wait until the gateway at an address is ready."""
    while True:
        try:
            async with calling(http) as caller:
                if (await caller.answer("GET", "/readyz"))[0] < FAILED:
                    return
        except OSError:
            pass  # The gateway does not listen yet.
        await asyncio.sleep(LOOK_EVERY)


async def caught_up(caller: Caller, log: EventLog, tenant: str, session: str) -> None:
    """Wait until the read models hold all that a session's log holds now."""
    last = await log.read_last_event(tenant, session)
    assert last
    with_rows = f"/v1/sessions/{session}/calls?min_sequence={last.sequence}"
    while (await caller.answer("GET", with_rows))[0] >= FAILED:
        pass
