"""Server-sent events over one connection: framing, signs of life, and a bound on everything.

What waits to be sent is joined, so a fast source costs few writes. A reader who does not read
is cut after a while, with little held for them; the ids they got let them go on where they
were. This module knows nothing of what is sent.
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
"""Bytes that may wait for a reader before the source has to."""

_log = structlog.get_logger("turnlog.sse")


def framed(name: str, data: bytes, cursor: str) -> bytes:
    """Frame one event; a line break would end a field, so none is left within one."""
    name = "".join(name.split())
    lines = b"\ndata: ".join(data.splitlines())
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (cursor.encode(), name.encode(), lines)


@dataclass(frozen=True, slots=True)
class Pace:
    """How long either side may be silent."""

    keep_alive: float
    """Seconds after which a sign of life is sent."""
    patience: float
    """Seconds that one write may take before its reader is cut."""


def pace(settings: GatewaySettings) -> Pace:
    """Give the pace of every stream of a gateway."""
    return Pace(settings.keep_alive, settings.reader_seconds)


class EventStream(StreamingResponse):
    """The answer that sends frames; a subclass, since FastAPI hands on nothing else as it is."""

    def __init__(self, frames: AsyncGenerator[bytes], pace: Pace, stopping: asyncio.Event) -> None:
        super().__init__(frames, headers=HEADERS, media_type=MEDIA)
        self.frames = frames
        self.pace = pace
        self.stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the frames end, the gateway stops, or the reader is gone or too slow."""
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
            # Returning with the answer unfinished is how a server is told to hang up
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
    """What waits for a reader."""

    held: bytearray = field(default_factory=bytearray)
    ended: bool = False
    filled: asyncio.Event = field(default_factory=asyncio.Event)
    emptied: asyncio.Event = field(default_factory=asyncio.Event)

    async def fill(self, frames: AsyncGenerator[bytes]) -> None:
        """Hold frames as they come, and wait while too many are held."""
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
        """Let nothing follow what is held now."""
        self.ended = True
        self.filled.set()

    async def take(self, within: float) -> bytes | None:
        """Give all that is held, or a sign of life where nothing comes; none after the end."""
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
