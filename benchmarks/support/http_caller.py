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

FIRST_ERROR_STATUS = 400

GATEWAY_POLL_INTERVAL = 0.05
"""Seconds between two checks of a gateway that starts."""

END_EVENT_LINES = (b"event: done", b"event: failed", b"event: cancelled", b"event: redact")


@dataclass(frozen=True, slots=True)
class HttpCaller:
    """An open connection to a gateway."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    key: str | None = None
    """The key of a gateway that asks for one."""

    async def request_json(
        self, method: str, path: str, body: Mapping[str, JsonValue] | None = None
    ) -> dict[str, JsonValue]:
        """Send a request and return the JSON of the answer; raises for an error status."""
        status, raw = await self.send_request(method, path, body)
        if status >= FIRST_ERROR_STATUS:
            raise RuntimeError(raw.decode())
        return cast("dict[str, JsonValue]", json.loads(raw))

    async def send_request(
        self, method: str, path: str, body: Mapping[str, JsonValue] | None = None
    ) -> tuple[int, bytes]:
        """Send a request and return status and body."""
        status, length = await self._send_head(method, path, body, "application/json")
        return status, await (self.reader.readexactly(length) if length else self._read_chunks())

    async def run_turn(self, session: str, text: str) -> None:
        """Submit a turn and watch it to its end."""
        async for _ in self.stream_turn(session, text):
            pass

    async def stream_turn(self, session: str, text: str) -> AsyncGenerator[bytes]:
        """Submit a turn and yield the lines of its stream; raises for any end but an answer."""
        path = f"/v1/sessions/{session}/turns"
        await self._send_head("POST", path, {"text": text}, "text/event-stream")
        line = b""
        while not line.startswith(END_EVENT_LINES):
            line = await self.reader.readuntil(b"\n")
            yield line.strip()
        if line.strip() != b"event: done":
            raise RuntimeError(line.decode())

    async def read_stream_end(self) -> None:
        """Read what follows the end of a stream, so that the connection can be reused."""
        while await self.reader.readuntil(b"\n") != b"0\r\n":
            pass
        await self.reader.readline()

    async def _send_head(
        self, method: str, path: str, body: Mapping[str, JsonValue] | None, accept: str
    ) -> tuple[int, int]:
        """Send a request and read the answer's head: status and length, 0 when in chunks."""
        raw = json.dumps(body).encode() if body is not None else b""
        lines = [f"{method} {path} HTTP/1.1", "host: localhost", f"accept: {accept}"]
        if self.key is not None:
            lines.append(f"authorization: Bearer {self.key}")
        if raw:
            lines += ["content-type: application/json", f"content-length: {len(raw)}"]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + raw)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status, *fields = head.split("\r\n")
        named = dict(field.split(": ", 1) for field in fields if field)
        return int(status.split()[1]), int(named.get("content-length", 0))

    async def _read_chunks(self) -> bytes:
        raw = b""
        while size := int(await self.reader.readline(), 16):
            raw += await self.reader.readexactly(size)
            await self.reader.readline()
        await self.reader.readline()
        return raw


@asynccontextmanager
async def connect_caller(http: str, key: str | None = None) -> AsyncGenerator[HttpCaller]:
    """Connect to a gateway at its address, which may ask for a key."""
    place = urlsplit(http)
    assert place.hostname
    reader, writer = await asyncio.open_connection(place.hostname, place.port, limit=2**24)
    try:
        yield HttpCaller(reader, writer, key)
    finally:
        writer.close()


async def wait_for_gateway(http: str) -> None:
    """Wait until the gateway at an address is ready."""
    while True:
        try:
            async with connect_caller(http) as caller:
                if (await caller.send_request("GET", "/readyz"))[0] < FIRST_ERROR_STATUS:
                    return
        except OSError:
            pass  # The gateway does not listen yet.
        await asyncio.sleep(GATEWAY_POLL_INTERVAL)


async def wait_for_read_models(
    caller: HttpCaller, log: EventLog, tenant: str, session: str
) -> None:
    """Wait until the read models hold all that a session's log holds now."""
    last = await log.read_last_event(tenant, session)
    assert last
    with_rows = f"/v1/sessions/{session}/calls?min_sequence={last.sequence}"
    while (await caller.send_request("GET", with_rows))[0] >= FIRST_ERROR_STATUS:
        pass
