"""A crowd of clients that come in the same moment is served in groups, so that no loop is held."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tests.support.sessions.session_harness import SessionHarness
from turnlog.events.async_tasks import cancel_tasks, run_tasks
from turnlog.events.envelope import RecordedEvent
from turnlog.events.store.memory_log import MemoryLog
from turnlog.services.http.request_pacing import STARTS_PER_PASS, RequestPacing
from turnlog.services.platform.asgi_server import ACCEPTED_PER_PASS, serve_asgi
from turnlog.services.use_cases.turns.turn_watching import MOST_STREAM_OPENINGS, TurnWatching

CROWD = 200


@dataclass
class PassCounter:
    """Counts what happens in each pass of the event loop."""

    current: int = 0
    counts: Counter[int] = field(default_factory=Counter[int])

    async def run(self) -> None:
        """Number the passes until cancelled."""
        while True:
            self.current += 1
            await asyncio.sleep(0)

    def add(self) -> None:
        """Count once in this pass."""
        self.counts[self.current] += 1


async def receive_nothing() -> Message:
    return {"type": "http.disconnect"}


async def send_nothing(message: Message) -> None:
    del message


async def ignore_request(scope: Scope, receive: Receive, send: Send) -> None:
    del scope, receive, send


def build_counting_app(passes: PassCounter, started: list[int]) -> RequestPacing:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del receive, send
        passes.add()
        started.append(scope["number"])

    return RequestPacing(app)


async def test_crowd_of_requests_starts_in_groups_and_in_order() -> None:
    passes, started = PassCounter(), list[int]()
    app = build_counting_app(passes, started)
    async with run_tasks(passes.run()):
        await asyncio.gather(
            *(
                app({"type": "http", "number": number}, receive_nothing, send_nothing)
                for number in range(CROWD)
            )
        )
    assert started == list(range(CROWD))
    assert max(passes.counts.values()) == STARTS_PER_PASS


async def test_requests_whose_clients_left_before_they_started_hold_up_no_other() -> None:
    passes, started = PassCounter(), list[int]()
    app = build_counting_app(passes, started)
    waiting = [
        asyncio.create_task(app({"type": "http", "number": number}, receive_nothing, send_nothing))
        for number in range(3 * STARTS_PER_PASS)
    ]
    await asyncio.sleep(0)
    await cancel_tasks(*waiting[STARTS_PER_PASS:-1])
    await waiting[-1]
    assert started == [*range(STARTS_PER_PASS), len(waiting) - 1]


@asynccontextmanager
async def connect_crowd(address: str) -> AsyncGenerator[None]:
    """Open many connections in one moment."""
    parts = urlsplit(address)
    opened = await asyncio.gather(
        *(asyncio.open_connection(parts.hostname, parts.port) for _ in range(CROWD))
    )
    try:
        yield
    finally:
        for _, writer in opened:
            writer.close()


async def test_crowd_of_connections_is_accepted_in_groups() -> None:
    passes, everyone = PassCounter(), asyncio.Event()

    class CountingProtocol(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            passes.add()
            if passes.counts.total() == CROWD:
                everyone.set()

    async with (
        serve_asgi(
            ignore_request,
            "127.0.0.1:0",
            field="http",
            grace=1,
            on_stopping=lambda: None,
            http=CountingProtocol,
        ) as address,
        run_tasks(passes.run()),
        connect_crowd(address),
    ):
        await everyone.wait()
    assert max(passes.counts.values()) <= ACCEPTED_PER_PASS


@dataclass
class CrowdedLog(MemoryLog):
    """A log that answers the readers of a last event once many of them wait."""

    reading: int = 0
    most_reading: int = 0

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        self.reading += 1
        self.most_reading = max(self.most_reading, self.reading)
        for _ in range(10):
            await asyncio.sleep(0)
        self.reading -= 1
        return await super().read_last_event(tenant, session, leader=leader)


async def test_crowd_of_watchers_reads_the_past_of_a_turn_in_groups() -> None:
    log = CrowdedLog()
    harness = SessionHarness(log=log)
    await harness.open_session()
    event = await harness.submit_turn("Hi")
    turns = TurnWatching(harness.sessions, harness.tokens, asyncio.Event())
    streams = await asyncio.gather(
        *(turns.open_stream(event.tenant, event.session, 1) for _ in range(CROWD))
    )
    assert log.most_reading == MOST_STREAM_OPENINGS
    for stream in streams:
        assert stream is not None
        await stream.aclose()
