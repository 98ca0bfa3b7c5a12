"""Bodies that a route reads in pieces while they arrive, instead of JSON that is read before.

Such a body may be large, so its time limit grows with what has arrived: a client may take the same
time for each part of it that it may take for any other body. What is left of a body when the
request is refused is read and discarded before the response, because a client that is still sending
would see a connection reset instead.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from turnlog.contract import api_paths
from turnlog.events.errors import Refused

STREAMED_BODY_PATHS: Final = frozenset({api_paths.BLOBS})
"""Routes that read their body themselves."""

MAX_DISCARDED_BYTES: Final = 8 * 1024 * 1024
"""How many bytes of a refused body are read and discarded."""


def has_streamed_body(scope: Scope) -> bool:
    """Return whether the route of a request reads its body itself."""
    return scope["path"] in STREAMED_BODY_PATHS and scope["method"] == "POST"


@dataclass(kw_only=True)
class StreamedBody:
    """The connection of a request whose body is read by its route."""

    receive: Receive
    send: Send
    seconds: float
    """Time for each part of the body."""
    part_bytes: int
    began: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    size: int = 0
    is_complete: bool = False
    is_late: bool = False

    async def receive_piece(self) -> Message:
        """Receive a piece of the body; raises `Refused` `too-slow` at the time limit."""
        if self.is_complete:
            return await self.receive()
        allowed = self.seconds * (1 + self.size // self.part_bytes)
        try:
            async with asyncio.timeout_at(self.began + allowed):
                return self._count_piece(await self.receive())
        except TimeoutError:
            self.is_late = True
            detail = f"{self.size} bytes arrived within {allowed:g} s"
            raise Refused("too-slow", detail, field="body", fix="send it faster") from None

    def _count_piece(self, message: Message) -> Message:
        self.size += len(message.get("body", b""))
        self.is_complete = not message.get("more_body", False)
        return message

    async def send_after_body(self, message: Message) -> None:
        """Send a message of the response; before its head, read what is left of the body."""
        if message["type"] == "http.response.start" and not self.is_complete:
            await self._discard_rest()
            MutableHeaders(scope=message)["connection"] = "close"
        await self.send(message)

    async def _discard_rest(self) -> None:
        most = self.size + MAX_DISCARDED_BYTES
        with suppress(TimeoutError):
            async with asyncio.timeout(self.seconds):
                while not self.is_late and not self.is_complete and self.size <= most:
                    self._count_piece(await self.receive())
