"""What one connection may use, and how it ends when its reader is slow or gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from tests.services.gateway.streaming.sse_client import open_stream
from tests.services.gateway.streaming.stream_session import serve_app
from turnlog.events.errors import Unavailable
from turnlog.services.http.sse import (
    MAX_PENDING_BYTES,
    SseResponse,
    StreamTimeouts,
    encode_frame,
)

LARGE = b"x" * 10_000


@dataclass
class FrameSource:
    """A source of large frames that signals when it is closed."""

    count: int | None = None
    error: Exception | None = None
    given: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def iterate_frames(self) -> AsyncGenerator[bytes]:
        try:
            while self.count is None or self.given < self.count:
                self.given += 1
                yield encode_frame("large", LARGE, str(self.given))
                await asyncio.sleep(0)
            if self.error:
                raise self.error
        finally:
            self.left.set()


def build_app(source: FrameSource, patience: float = 20.0) -> Starlette:
    stopping = asyncio.Event()

    async def stream(request: Request) -> SseResponse:
        del request
        return SseResponse(source.iterate_frames(), StreamTimeouts(15.0, patience), stopping)

    return Starlette(routes=[Route("/stream", stream)])


async def test_stalled_reader_is_disconnected_without_a_final_chunk() -> None:
    source = FrameSource()
    async with (
        serve_app(build_app(source, patience=0.2)) as port,
        open_stream(port, "/stream") as answer,
    ):
        await source.left.wait()
        before = source.given
        got = await answer.read_all()
        assert [int(event.id) for event in got] == list(range(1, len(got) + 1))
        assert len(got) <= before
        # The last chunk of an answer that was finished is empty; here the connection just ends
        assert answer.is_unfinished


async def test_stalled_reader_slows_the_source_instead_of_filling_memory() -> None:
    source = FrameSource()
    async with serve_app(build_app(source, patience=0.5)) as port, open_stream(port, "/stream"):
        await source.left.wait()
    # Beside what may wait here there are only the buffers of the two sockets
    assert source.given * len(LARGE) < MAX_PENDING_BYTES + 8 * 1024 * 1024


async def test_slow_reader_does_not_delay_other_readers() -> None:
    source, quick = FrameSource(), FrameSource(count=300)
    async with (
        serve_app(build_app(source)) as port,
        serve_app(build_app(quick)) as other,
        open_stream(port, "/stream"),
    ):
        async with open_stream(other, "/stream") as answer:
            assert len(await answer.read_all()) == 300
        assert not source.left.is_set()


async def test_disconnected_reader_is_detected_while_the_stream_is_idle() -> None:
    left = asyncio.Event()

    async def silent() -> AsyncGenerator[bytes]:
        try:
            await asyncio.Event().wait()
            yield b""
        finally:
            left.set()

    async def stream(request: Request) -> SseResponse:
        del request
        return SseResponse(silent(), StreamTimeouts(3600.0, 20.0), asyncio.Event())

    async with serve_app(Starlette(routes=[Route("/stream", stream)])) as port:
        async with open_stream(port, "/stream") as answer:
            await answer.read_chunk()
            answer.cut_connection()
        await left.wait()


async def test_source_that_swallows_a_cancellation_still_ends_with_its_reader() -> None:
    # As whatever waits for NATS does now and then on Python 3.11
    left = asyncio.Event()

    async def deaf() -> AsyncGenerator[str]:
        try:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            await asyncio.Event().wait()
            yield "never"
        finally:
            left.set()

    async def frames() -> AsyncGenerator[bytes]:
        async with aclosing(deaf()) as items:
            async for item in items:
                yield item.encode()

    async def stream(request: Request) -> SseResponse:
        del request
        return SseResponse(frames(), StreamTimeouts(15.0, 20.0), asyncio.Event())

    async with serve_app(Starlette(routes=[Route("/stream", stream)])) as port:
        async with open_stream(port, "/stream") as answer:
            await answer.read_chunk()
        await left.wait()


async def test_pending_frames_are_sent_in_few_writes() -> None:
    async def burst() -> AsyncGenerator[bytes]:
        for number in range(1000):
            yield encode_frame("small", b"x", str(number))

    async def stream(request: Request) -> SseResponse:
        del request
        return SseResponse(burst(), StreamTimeouts(15.0, 20.0), asyncio.Event())

    routes = [Route("/stream", stream)]
    async with serve_app(Starlette(routes=routes)) as port, open_stream(port, "/stream") as answer:
        sizes: list[int] = []
        while chunk := await answer.read_chunk():
            sizes.append(len(chunk))
        assert len(sizes) < 10


async def test_failing_source_ends_the_stream_after_its_frames() -> None:
    source = FrameSource(count=3, error=Unavailable("nats", "gone"))
    async with serve_app(build_app(source)) as port, open_stream(port, "/stream") as answer:
        assert [event.id for event in await answer.read_all()] == ["1", "2", "3"]
        assert not answer.is_unfinished


@pytest.mark.parametrize("data", [b"a\nb", b"a\r\nb", b"a\rb", b'{"a":\n1}'])
def test_a_line_break_in_data_does_not_break_the_frame(data: bytes) -> None:
    frame = encode_frame("name", data, "1")
    assert frame.count(b"\n\n") == 1
    assert frame.endswith(b"\n\n")
    assert b"\r" not in frame


def test_a_line_break_in_a_name_does_not_break_the_frame() -> None:
    assert encode_frame("na\nme\r", b"{}", "1") == b"id: 1\nevent: name\ndata: {}\n\n"
