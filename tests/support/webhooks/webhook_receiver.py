"""A receiver of webhooks for tests: a real HTTP server that answers as the test says."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

WAIT_SECONDS = 60.0
"""Seconds after which something that never comes fails the test."""


@dataclass(frozen=True)
class Delivery:
    """A request as the receiver got it."""

    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Any:  # noqa: ANN401 - JSON of any shape
        return json.loads(self.body)

    @property
    def position(self) -> int:
        return int(self.message["position"])

    @property
    def session(self) -> str:
        return str(self.message["data"]["subject"])

    @property
    def name(self) -> str:
        """The name of the event."""
        return str(self.message["type"]).removeprefix("turnlog.").rpartition(".v")[0]

    def has_signature_of(self, secret: str) -> bool:
        """Check the signature as Standard Webhooks describes it."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        content = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode()
        expected = base64.b64encode(hmac.new(key, content + self.body, hashlib.sha256).digest())
        return self.headers["webhook-signature"] == f"v1,{expected.decode()}"


Answer = bytes
"""What is sent back: a whole response, or b"" to end the connection without one."""

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

BAD = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"


async def accept(delivery: Delivery) -> Answer:
    """Accept a delivery."""
    del delivery
    return GOOD


@dataclass
class WebhookReceiver:
    """Deliveries, in the order in which they came."""

    answer: Callable[[Delivery], Awaitable[Answer]] = accept
    port: int = 0
    tried: list[Delivery] = field(default_factory=list[Delivery])
    """All requests."""
    accepted: list[Delivery] = field(default_factory=list[Delivery])
    """Those that were answered with 200."""
    running: int = 0
    most_running: int = 0
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/in"

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def listen(self) -> AsyncGenerator[None]:
        """Listen while the body runs; the port stays the same when it is called again."""
        connections = set[asyncio.Task[None]]()

        def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._serve_connection(reader, writer))
            connections.add(task)
            task.add_done_callback(connections.discard)

        server = await asyncio.start_server(serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for task in connections:
                task.cancel()
            if connections:
                await asyncio.wait(connections)

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while head := await reader.readuntil(b"\r\n\r\n"):
                    pairs = (line.partition(": ") for line in head.decode().split("\r\n")[1:-2])
                    headers = {name.lower(): value for name, _, value in pairs}
                    body = await reader.readexactly(int(headers["content-length"]))
                    answer = await self._take(Delivery(headers, body))
                    if not answer:
                        break
                    writer.write(answer)
                    await writer.drain()
        finally:
            writer.close()

    async def _take(self, delivery: Delivery) -> Answer:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        async with self._news:
            self.tried.append(delivery)
            self._news.notify_all()
        try:
            answer = await self.answer(delivery)
        finally:
            self.running -= 1
        if answer == GOOD:
            async with self._news:
                self.accepted.append(delivery)
                self._news.notify_all()
        return answer

    async def wait_for(self, is_met: Callable[[], bool]) -> None:
        """Wait until a condition on what came is met."""
        async with asyncio.timeout(WAIT_SECONDS), self._news:
            await self._news.wait_for(is_met)

    async def wait_for_positions(self, positions: set[int]) -> None:
        """Wait until these positions were accepted."""
        await self.wait_for(lambda: positions <= {each.position for each in self.accepted})

    def list_by_session(self) -> dict[str, list[int]]:
        """Return the accepted positions of each session, in the order in which they came."""
        found = defaultdict[str, list[int]](list)
        for each in self.accepted:
            found[each.session].append(each.position)
        return dict(found)
