"""Subscriptions of core NATS: live republished messages, and raw messages in bulk.

A live subscription has no delivery guarantee. It buffers messages up to a size limit and drops the
rest, and the network may lose messages. Readers detect gaps by sequence and check from time to time
for a lost last message. After a certain loss (a reconnect, a full buffer) they receive None in
place of the messages and check at once.

A raw subscription takes its messages from the wire before nats-py processes them. For every message
nats-py parses all headers, creates an object and passes it through a queue to a task, which takes
three quarters of the time of reading a log. nats-py does everything else as before: connecting,
answering, resubscribing. Its parser has no public interface, so only this module depends on it, and
nats-py is pinned to one minor version.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from nats import errors
from nats.aio.msg import Msg

from turnlog.events.errors import Unavailable
from turnlog.events.ids import LIVE
from turnlog.events.nats.connection import Connection, subscribed

ROOM: Final = 4 * 1024 * 1024
"""Bytes buffered for a reader that does not read yet."""
OVERHEAD: Final = 1024
"""Bytes counted per message in addition to its payload."""


@dataclass
class Arrivals:
    """Messages that arrived since the subscription was opened."""

    kept: deque[Msg | None] = field(default_factory=deque["Msg | None"])
    room: int = ROOM
    came: asyncio.Event = field(default_factory=asyncio.Event)

    async def keep(self, message: Msg) -> None:
        """Buffer a message if there is space for it."""
        size = len(message.data) + OVERHEAD
        if size > self.room:
            self.doubt()
            return
        self.room -= size
        self.kept.append(message)
        self.came.set()

    def doubt(self) -> None:
        """Queue a None: messages may have been lost at this point."""
        if not self.kept or self.kept[-1] is not None:
            self.kept.append(None)
        self.came.set()

    async def next(self, within: float) -> Msg | None:
        """Return the next message; None after `timeout` seconds or after a possible loss."""
        if not self.kept:
            self.came.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self.came.wait()
        if not self.kept:
            return None
        message = self.kept.popleft()
        if message is not None:
            self.room += len(message.data) + OVERHEAD
        return message


@asynccontextmanager
async def arrivals(connection: Connection, subjects: str) -> AsyncGenerator[Arrivals]:
    """Subscribe to the republished messages of `subjects`."""
    came = Arrivals()
    try:
        async with subscribed(connection.nc, f"{LIVE}.{subjects}", came.keep):
            with connection.each_reconnect(came.doubt):
                yield came
    except errors.Error as error:
        raise Unavailable("nats", f"no subscription: {type(error).__name__}") from error
