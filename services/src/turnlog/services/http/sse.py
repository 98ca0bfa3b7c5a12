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
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from turnlog.events.async_tasks import run_tasks
from turnlog.events.errors import TurnlogError
from turnlog.services.http.headers import SSE_MEDIA_TYPE
from turnlog.services.platform.process_settings import GatewaySettings

SSE_HEADERS: Final = {"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"}

RETRY_FRAME: Final = b"retry: 1000\n\n"

KEEP_ALIVE_FRAME: Final = b": alive\n\n"

MAX_PENDING_BYTES: Final = 256 * 1024
"""How many bytes may be pending before the source has to wait."""

_log = structlog.get_logger("turnlog.sse")


def encode_frame(name: str, data: bytes, cursor: str) -> bytes:
    """Return one event as an SSE frame; line breaks within a field are encoded or removed.

    Without a cursor the client goes on from the one before.
    """
    name = "".join(name.split())
    lines = b"\ndata: ".join(data.splitlines())
    place = b"id: %b\n" % cursor.encode() if cursor else b""
    return b"%bevent: %b\ndata: %b\n\n" % (place, name.encode(), lines)


@dataclass(frozen=True, slots=True)
class StreamTimeouts:
    """The timeouts of a stream."""

    keep_alive: float
    """Seconds of silence after which a keep-alive comment is sent."""
    write_timeout: float
    """Seconds that one write may take before the client is disconnected."""


def create_sse_response(request: Request, frames: AsyncGenerator[bytes]) -> SseResponse:
    """Return the response that sends frames, with the timeouts of the gateway."""
    settings: GatewaySettings = request.app.state.settings
    timeouts = StreamTimeouts(settings.keep_alive, settings.reader_seconds)
    return SseResponse(frames, timeouts, request.app.state.shutdown_event)


class SseResponse(StreamingResponse):
    """The response that sends SSE frames.

    It is a subclass because FastAPI passes on only `Response` objects unchanged.
    """

    def __init__(
        self, frames: AsyncGenerator[bytes], pace: StreamTimeouts, stopping: asyncio.Event
    ) -> None:
        super().__init__(frames, headers=SSE_HEADERS, media_type=SSE_MEDIA_TYPE)
        self.frames = frames
        self.timeouts = pace
        self.shutdown_event = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send frames until they end, the gateway stops, or the client is disconnected or slow."""
        del scope
        outflow = _SendBuffer()
        async with run_tasks(
            outflow.fill_from(self.frames),
            _close_on_disconnect(receive, outflow),
            _close_on_shutdown(self.shutdown_event, outflow),
        ) as tasks:
            try:
                await self._send_chunks(outflow, send)
            except TimeoutError:
                # An ASGI server closes the connection when the application returns with an
                # unfinished response.
                _log.warning("slow-reader-disconnected", patience=self.timeouts.write_timeout)
        for task in tasks:
            if not task.cancelled():
                task.result()

    async def _send_chunks(self, buffer: _SendBuffer, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        chunk: bytes | None = RETRY_FRAME
        while chunk is not None:
            async with asyncio.timeout(self.timeouts.write_timeout):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            chunk = await buffer.take_chunk(self.timeouts.keep_alive)
        async with asyncio.timeout(self.timeouts.write_timeout):
            await send({"type": "http.response.body", "body": b"", "more_body": False})


@dataclass
class _SendBuffer:
    """The bounded buffer between the source of frames and the connection."""

    pending: bytearray = field(default_factory=bytearray)
    closed: bool = False
    data_ready: asyncio.Event = field(default_factory=asyncio.Event)
    space_ready: asyncio.Event = field(default_factory=asyncio.Event)

    async def fill_from(self, frames: AsyncGenerator[bytes]) -> None:
        """Append frames as they arrive, and wait while the buffer is full."""
        try:
            async with aclosing(frames):
                async for frame in frames:
                    self.pending += frame
                    self.data_ready.set()
                    while len(self.pending) >= MAX_PENDING_BYTES:
                        self.space_ready.clear()
                        await self.space_ready.wait()
        except TurnlogError as error:
            _log.warning("stream-failed", error=str(error))
        finally:
            self.close()

    def close(self) -> None:
        """Accept no more frames; the pending ones are still sent."""
        self.closed = True
        self.data_ready.set()

    async def take_chunk(self, timeout: float) -> bytes | None:
        """Return all pending bytes, or a keep-alive comment after the timeout.

        None after the end.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self.data_ready.wait()
        taken = bytes(self.pending)
        self.pending.clear()
        self.space_ready.set()
        if not self.closed:
            self.data_ready.clear()
        elif not taken:
            return None
        return taken or KEEP_ALIVE_FRAME


async def _close_on_disconnect(receive: Receive, buffer: _SendBuffer) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    buffer.close()


async def _close_on_shutdown(shutdown_event: asyncio.Event, buffer: _SendBuffer) -> None:
    await shutdown_event.wait()
    buffer.close()
