"""An SSE client on a raw socket, which may cut its connection at any byte."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from tests.support.sessions.published_schemas import list_turn_frame_faults


@dataclass(frozen=True)
class ReceivedEvent:
    """One received SSE event."""

    id: str
    name: str
    data: str

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.data)
        return value


@dataclass(kw_only=True)
class StreamingResponse:
    """A response whose body is being read."""

    status: int
    headers: dict[str, str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    unparsed: bytes = b""
    comments: int = 0
    is_unfinished: bool = True
    """Whether the final chunk has not arrived yet."""
    is_of_turn: bool = False
    """Whether it is a turn's stream, whose events must be as the reference describes them."""

    async def read_chunk(self) -> bytes:
        """Return the next chunk of the body; empty bytes when the body or the connection ends."""
        if self.status == HTTPStatus.NO_CONTENT:
            self.is_unfinished = False
            return b""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            body = await self.reader.readexactly(size)
            await self.reader.readexactly(2)
            self.is_unfinished = size > 0
            return body
        return b""

    async def iterate_events(self) -> AsyncGenerator[ReceivedEvent]:
        """Iterate over the events of the body as they become complete."""
        while chunk := await self.read_chunk():
            for event in self.parse_chunk(chunk):
                yield event

    def parse_chunk(self, chunk: bytes) -> list[ReceivedEvent]:
        """Return the events that `chunk` completes, parsed as the SSE standard says."""
        *blocks, self.unparsed = (self.unparsed + chunk).split(b"\n\n")
        parsed = [self._parse_block(block.decode()) for block in blocks]
        return [event for event in parsed if event]

    def _parse_block(self, block: str) -> ReceivedEvent | None:
        fields: dict[str, list[str]] = {}
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))
        self.comments += len(fields.get("", []))
        if "data" not in fields:
            return None
        received = ReceivedEvent(
            fields.get("id", [""])[0], fields["event"][0], "\n".join(fields["data"])
        )
        if self.is_of_turn:
            faults = list_turn_frame_faults(received.id, received.name, received.json)
            assert faults == [], (received, faults)
        return received

    async def read_all(self) -> list[ReceivedEvent]:
        return [event async for event in self.iterate_events()]

    def cut_connection(self) -> None:
        """Abort the connection as a failing network does."""
        self.writer.transport.abort()


@asynccontextmanager
async def open_stream(
    port: int,
    path: str,
    *,
    last_id: str | None = None,
    method: str = "GET",
    receive_buffer: int | None = None,
) -> AsyncGenerator[StreamingResponse]:
    """Send a request and yield its response, whose body is still unread.

    `receive_buffer` is the size in bytes of the kernel's receive buffer for this connection.
    """
    with socket.socket() as connection:
        if receive_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.settimeout(0)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(
            sock=connection, limit=receive_buffer or 65_536
        )
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Accept: text/event-stream"]
        if last_id is not None:
            lines.append(f"Last-Event-ID: {last_id}")
        writer.write("\r\n".join([*lines, "", ""]).encode())
        try:
            status, *headers = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            pairs = (header.partition(":") for header in headers)
            named = {name.lower(): value.strip() for name, _, value in pairs}
            yield StreamingResponse(
                status=int(status.split()[1]),
                headers=named,
                reader=reader,
                writer=writer,
                is_of_turn="/turns" in path,
            )
        finally:
            writer.transport.abort()


@dataclass(kw_only=True)
class ResumingWatcher:
    """A client that reconnects with the last event id until the stream ends."""

    port: int
    path: str
    text: str = ""
    last_id: str | None = None
    names: list[str] = field(default_factory=list[str])
    end_event: ReceivedEvent | None = None

    async def watch_connection(self, most_bytes: int | None = None) -> None:
        """Read one connection; cut it after `most_bytes` bytes of the body."""
        async with open_stream(self.port, self.path, last_id=self.last_id) as answer:
            assert answer.status == 200, answer.status
            left = most_bytes
            while chunk := await answer.read_chunk():
                for event in answer.parse_chunk(chunk if left is None else chunk[:left]):
                    self.apply_event(event)
                if left is not None:
                    left -= len(chunk)
                    if left <= 0:
                        return

    def apply_event(self, event: ReceivedEvent) -> None:
        """Apply an event as the documentation says."""
        assert self.end_event is None
        self.last_id = event.id
        self.names.append(event.name)
        match event.name:
            case "token":
                self.text += event.json["text"]
            case "attempt-reset":
                self.text = ""
            case "progress":
                pass
            case _:
                self.end_event = event
