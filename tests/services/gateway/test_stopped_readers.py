"""Readers of the gateway's streams that stop reading: disconnected, cheap and able to resume."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
import pytest_asyncio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.services.gateway.streaming import NARROW, Stage, gateway, served, staged
from tests.services.gateway.watching import Heard, Watcher, asking
from turnlog.services.gateway.streaming.sse import MAX_PENDING_BYTES

LONG = "x" * 50_000
TURNS = 20
WAITING = 1_000_000
"""Bytes in transit: those buffered by the gateway, the sockets and the transports."""

pytestmark = pytest.mark.promise("P8", "P14")


@pytest_asyncio.fixture(params=["memory", "nats"])
async def stage(
    request: pytest.FixtureRequest, fresh_tenant: str, nats_url: str
) -> AsyncIterator[Stage]:
    async with staged(fresh_tenant, nats_url if request.param == "nats" else None) as stage:
        yield stage


@dataclass
class Counted:
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


async def long_session(stage: Stage) -> None:
    for turn in range(1, TURNS + 1):
        await stage.submit(LONG)
        attempt = await stage.claim(turn)
        await stage.say(attempt, LONG)
        await stage.complete(attempt)


@pytest.mark.promise("P14")
@pytest.mark.parametrize("path", ["/v1/sessions/s/events", "/v1/events"])
async def test_a_reader_of_events_who_stops_is_cut_and_comes_back_without_a_gap(
    stage: Stage, path: str
) -> None:
    await long_session(stage)
    whole = [event.stored for event in await stage.sessions().load_events(stage.tenant, "s")]
    assert sum(map(len, whole)) > 2 * WAITING
    app = Counted(gateway(stage.desk(reader_seconds=0.3)))
    async with served(app, narrow=True) as port:
        async with asking(port, path, room=NARROW) as stuck:
            await app.left.wait()
            assert app.sent < WAITING + MAX_PENDING_BYTES
            got = await stuck.whole()
            assert stuck.unfinished
        assert 0 < len(got) < len(whole)
        async with asking(port, path, last_id=got[-1].id) as again:
            got += await some(again.events(), len(whole) - len(got))
    assert [event.data.encode() for event in got] == whole


async def some(events: AsyncIterator[Heard], count: int) -> list[Heard]:
    return [await anext(events) for _ in range(count)]


@pytest.mark.promise("P8", "P14")
async def test_a_reader_of_a_reply_who_stops_gets_it_whole_when_they_come_back(
    stage: Stage,
) -> None:
    await stage.submit()
    attempt = await stage.claim()
    app = Counted(gateway(stage.desk(reader_seconds=0.3)))
    path = "/v1/sessions/s/turns/1/stream"
    async with served(app, narrow=True) as port:
        watcher = Watcher(port, path)
        async with asking(port, path, room=NARROW) as stuck:
            for number in range(16):
                await stage.say(attempt, f"{number:x}" * 50_000)
            await app.left.wait()
            for event in await stuck.whole():
                watcher.get(event)
            assert stuck.unfinished
        told = await stage.complete(attempt)
        assert len(watcher.text) < len(told)
        await watcher.watch()
    assert watcher.text == told
    assert watcher.end is not None
