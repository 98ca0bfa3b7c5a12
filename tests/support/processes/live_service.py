"""A running service as its users see it, with access to its log.

Tests wait for an event on the log or on a stream, never for a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx

from tests.services.gateway.streaming.sse_client import StreamingResponse, open_stream
from tests.support.processes.process_host import POLL_INTERVAL
from tests.support.processes.turnlog_process import TurnlogProcess
from tests.support.sessions.event_parts import find_part
from turnlog.events.envelope import RecordedEvent
from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.model.call_events import AttemptStarted
from turnlog.events.registry import KnownEvent
from turnlog.events.seals.keyrings import SealKeyring

TENANT = "default"

SERVICE_TIMEOUT = 150.0
"""Seconds until a wait counts as hanging."""

EventT = TypeVar("EventT", bound=KnownEvent)


@dataclass(frozen=True, slots=True)
class LiveService:
    """A gateway's address, and the test's own connection to the log."""

    http: httpx.AsyncClient
    nats: JetStreamClient

    async def wait_until_ready(self, gateway: TurnlogProcess) -> None:
        """Wait until the gateway can do its work."""
        async with asyncio.timeout(SERVICE_TIMEOUT):
            while gateway.returncode is None:
                with suppress(httpx.TransportError):
                    if (await self.http.get("/readyz")).is_success:
                        return
                await asyncio.sleep(POLL_INTERVAL)
        raise AssertionError(gateway.describe_output())

    async def open_session(self, blueprint: str = "assistant") -> str:
        """Open a session and return its id."""
        answer = await self.http.post("/v1/sessions", json={"blueprint": blueprint})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["session"])

    async def submit_turn(self, session: str, text: str = "Hi") -> int:
        """Submit a turn and return its number."""
        answer = await self.http.post(f"/v1/sessions/{session}/turns", json={"text": text})
        assert answer.status_code == 202, answer.text
        return int(answer.json()["turn"])

    async def run_turn(self, session: str, text: str = "Hi") -> dict[str, Any]:
        """Submit a turn and wait for its outcome."""
        url = f"/v1/sessions/{session}/turns?wait={SERVICE_TIMEOUT:g}"
        answer = await self.http.post(url, json={"text": text})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def get_json(self, path: str, **query: Any) -> Any:  # noqa: ANN401 - JSON of any shape
        """Get a resource that exists."""
        # With `params`, also empty ones, httpx drops the query of a path.
        answer = await self.http.get(httpx.URL(path).copy_merge_params(query))
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def list_calls(self, session: str) -> list[dict[str, Any]]:
        """Give all calls of a session, once the read models know of its last event."""
        last = await self.nats.log.read_last_event(TENANT, session, leader=True)
        assert last is not None
        url = f"/v1/sessions/{session}/calls"
        return list((await self.get_json(url, min_sequence=last.sequence))["calls"])

    def watch_turn(
        self, session: str, turn: int = 1
    ) -> AbstractAsyncContextManager[StreamingResponse]:
        """Watch a turn, as a client application does."""
        assert self.http.base_url.port is not None
        return open_stream(self.http.base_url.port, f"/v1/sessions/{session}/turns/{turn}/stream")

    async def list_events(self, session: str) -> list[RecordedEvent]:
        """Give all events of a session so far."""
        last = await self.nats.log.read_last_event(TENANT, session, leader=True)
        return list(await self.nats.log.read_range(TENANT, session, None, last)) if last else []

    async def wait_for_event(
        self,
        session: str,
        kind: type[EventT],
        *,
        turn: int = 1,
        such: Callable[[EventT], bool] = lambda _: True,
    ) -> EventT:
        """Wait for the first event of a type in a turn that matches `such`."""
        async with (
            asyncio.timeout(SERVICE_TIMEOUT),
            aclosing(self.nats.log.watch_session(TENANT, session)) as events,
        ):
            async for recorded in events:
                event = find_part(recorded.event, kind)
                if event is None or getattr(event, "turn", turn) != turn:
                    continue
                if such(event):
                    return event
        raise AssertionError("a watch has no end")

    async def list_events_of_type(
        self, session: str, kind: type[EventT], turn: int = 1
    ) -> list[EventT]:
        """List the events of one type in a turn so far."""
        parts = [find_part(each.event, kind) for each in await self.list_events(session)]
        return [part for part in parts if part and getattr(part, "turn", turn) == turn]

    async def wait_for_worker_pid(self, session: str, turn: int = 1) -> int:
        """Wait for the first attempt of a turn and return the process id of its worker."""
        started = await self.wait_for_event(session, AttemptStarted, turn=turn)
        return int(started.worker.rpartition("-")[2])


@asynccontextmanager
async def connect_service(
    http: str,
    nats: str,
    *,
    replicas: int = 1,
    keyring: SealKeyring | None = None,
    archive: Path | None = None,
) -> AsyncGenerator[LiveService]:
    """Connect to a service at its addresses; with its keyring to one that seals."""
    async with (
        httpx.AsyncClient(base_url=http, timeout=2 * SERVICE_TIMEOUT) as client,
        open_client(nats, StreamOptions(replicas), keyring=keyring, archive=archive) as jetstream,
    ):
        yield LiveService(client, jetstream)
