"""Readers of the gateway's streams that stop reading: disconnected, cheap and able to resume."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
import pytest_asyncio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.services.gateway.streaming.sse_client import ReceivedEvent, ResumingWatcher, open_stream
from tests.services.gateway.streaming.stream_session import (
    NARROW_BUFFER_BYTES,
    StreamedSession,
    build_stream_gateway,
    open_streamed_session,
    serve_app,
)
from turnlog.services.http.sse import MAX_PENDING_BYTES

LONG = "x" * 50_000

TURNS = 20

WAITING = 1_000_000
"""Bytes in transit: those buffered by the gateway, the sockets and the transports."""

pytestmark = pytest.mark.promise("P8", "P14")


@pytest_asyncio.fixture(params=["memory", "nats"])
async def stage(
    request: pytest.FixtureRequest, fresh_tenant: str, nats_url: str
) -> AsyncIterator[StreamedSession]:
    async with open_streamed_session(
        fresh_tenant, nats_url if request.param == "nats" else None
    ) as stage:
        yield stage


@dataclass
class CountingApp:
    """An application that counts what it sends and signals the end of a request."""

    app: ASGIApp
    sent: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            self.sent += len(message.get("body", b""))
            await send(message)

        self.left.clear()
        try:
            await self.app(scope, receive, counted)
        finally:
            self.left.set()


async def run_long_session(stage: StreamedSession) -> None:
    for turn in range(1, TURNS + 1):
        await stage.submit_turn(LONG)
        attempt = await stage.claim_turn(turn)
        await stage.publish_text(attempt, LONG)
        await stage.complete_turn(attempt)


@pytest.mark.promise("P14")
@pytest.mark.parametrize("path", ["/v1/sessions/s/events", "/v1/events"])
async def test_stalled_event_reader_is_disconnected_and_resumes_without_a_gap(
    stage: StreamedSession, path: str
) -> None:
    await run_long_session(stage)
    stored = [
        event.stored for event in await stage.build_command_handler().load_events(stage.tenant, "s")
    ]
    assert sum(map(len, stored)) > 2 * WAITING
    app = CountingApp(build_stream_gateway(stage.build_dependencies(reader_seconds=0.3)))
    async with serve_app(app, narrow=True) as port:
        async with open_stream(port, path, receive_buffer=NARROW_BUFFER_BYTES) as stuck:
            await app.left.wait()
            assert app.sent < WAITING + MAX_PENDING_BYTES
            got = await stuck.read_all()
            assert stuck.is_unfinished
        assert 0 < len(got) < len(stored)
        async with open_stream(port, path, last_id=got[-1].id) as again:
            got += await take_events(again.iterate_events(), len(stored) - len(got))
    assert [event.data.encode() for event in got] == stored


async def take_events(events: AsyncIterator[ReceivedEvent], count: int) -> list[ReceivedEvent]:
    return [await anext(events) for _ in range(count)]


@pytest.mark.promise("P8", "P14")
async def test_stalled_turn_reader_is_disconnected_and_gets_the_whole_reply_later(
    stage: StreamedSession,
) -> None:
    await stage.submit_turn()
    attempt = await stage.claim_turn()
    app = CountingApp(build_stream_gateway(stage.build_dependencies(reader_seconds=0.3)))
    path = "/v1/sessions/s/turns/1/stream"
    async with serve_app(app, narrow=True) as port:
        watcher = ResumingWatcher(port=port, path=path)
        async with open_stream(port, path, receive_buffer=NARROW_BUFFER_BYTES) as stuck:
            for number in range(16):
                await stage.publish_text(attempt, f"{number:x}" * 50_000)
            await app.left.wait()
            for event in await stuck.read_all():
                watcher.apply_event(event)
            assert stuck.is_unfinished
        reply = await stage.complete_turn(attempt)
        assert len(watcher.text) < len(reply)
        while watcher.end_event is None:  # A machine that is slow may cut this reader too.
            await watcher.watch_connection()
    assert watcher.text == reply
    assert watcher.end_event is not None
