"""Server-sent events over one connection: framing, keep-alive comments and backpressure.

Pending frames are joined, so a fast source needs few writes. A client that does not read is
disconnected after a timeout, with a bounded number of bytes buffered; it resumes with the last
event id it received. This module does not depend on what the events contain.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Final

import structlog
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from turnlog.events.errors import TurnlogError
from turnlog.services.runtime.settings import GatewaySettings
from turnlog.services.runtime.tasks import stopped

MEDIA: Final = "text/event-stream"
HEADERS: Final = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}
HELLO: Final = b"retry: 1000\n\n"
ALIVE: Final = b": alive\n\n"
ROOM: Final = 256 * 1024
"""How many bytes may be pending before the source has to wait."""

_log = structlog.get_logger("turnlog.sse")


def framed(name: str, data: bytes, cursor: str) -> bytes:
    """Return one event as an SSE frame; line breaks within a field are encoded or removed."""
    name = "".join(name.split())
    lines = b"\ndata: ".join(data.splitlines())
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (cursor.encode(), name.encode(), lines)


@dataclass(frozen=True, slots=True)
class Pace:
    """The timeouts of a stream."""

    keep_alive: float
    """Seconds of silence after which a keep-alive comment is sent."""
    patience: float
    """Seconds that one write may take before the client is disconnected."""


def pace(settings: GatewaySettings) -> Pace:
    """Return the timeouts of all streams of a gateway."""
    return Pace(settings.keep_alive, settings.reader_seconds)


class EventStream(StreamingResponse):
    """The response that sends SSE frames.

    It is a subclass because FastAPI passes on only `Response` objects unchanged.
    """

    def __init__(self, frames: AsyncGenerator[bytes], pace: Pace, stopping: asyncio.Event) -> None:
        super().__init__(frames, headers=HEADERS, media_type=MEDIA)
        self.frames = frames
        self.pace = pace
        self.stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send frames until they end, the gateway shuts down, or the client is gone or too slow."""
        del scope
        outflow = _Outflow()
        tasks = (
            asyncio.create_task(outflow.fill(self.frames)),
            asyncio.create_task(_gone(receive, outflow)),
            asyncio.create_task(_stopped(self.stopping, outflow)),
        )
        try:
            await self._write(outflow, send)
        except TimeoutError:
            # An ASGI server closes the connection when the application returns with an unfinished
            # response.
            _log.warning("slow-reader-cut", patience=self.pace.patience)
        finally:
            await stopped(*tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()

    async def _write(self, outflow: _Outflow, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        chunk: bytes | None = HELLO
        while chunk is not None:
            async with asyncio.timeout(self.pace.patience):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            chunk = await outflow.take(self.pace.keep_alive)
        async with asyncio.timeout(self.pace.patience):
            await send({"type": "http.response.body", "body": b"", "more_body": False})


@dataclass
class _Outflow:
    """The bounded buffer between the source of frames and the connection."""

    held: bytearray = field(default_factory=bytearray)
    ended: bool = False
    filled: asyncio.Event = field(default_factory=asyncio.Event)
    emptied: asyncio.Event = field(default_factory=asyncio.Event)

    async def fill(self, frames: AsyncGenerator[bytes]) -> None:
        """Append frames as they arrive, and wait while the buffer is full."""
        try:
            async with aclosing(frames):
                async for frame in frames:
                    self.held += frame
                    self.filled.set()
                    while len(self.held) >= ROOM:
                        self.emptied.clear()
                        await self.emptied.wait()
        except TurnlogError as error:
            _log.warning("stream-broken", error=str(error))
        finally:
            self.end()

    def end(self) -> None:
        """Accept no more frames; the pending ones are still sent."""
        self.ended = True
        self.filled.set()

    async def take(self, within: float) -> bytes | None:
        """Return all pending bytes, or a keep-alive comment after the timeout; None after the end.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self.filled.wait()
        taken = bytes(self.held)
        self.held.clear()
        self.emptied.set()
        if not self.ended:
            self.filled.clear()
        elif not taken:
            return None
        return taken or ALIVE


async def _gone(receive: Receive, outflow: _Outflow) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    outflow.end()


async def _stopped(stopping: asyncio.Event, outflow: _Outflow) -> None:
    await stopping.wait()
    outflow.end()
