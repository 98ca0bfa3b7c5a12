"""What a stream republishes, as it comes: live, by core NATS, and with no promise of arrival.

As much is kept as there is room for; the rest is dropped, and so is what the network loses.
Whoever reads must see a gap by number, and look for a lost last message from time to time; where
much is lost for certain, by a reconnect or for want of room, they are given none and look at once.
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
"""Bytes kept for a reader that is not there yet."""
OVERHEAD: Final = 1024
"""Bytes counted for a message besides its payload."""


@dataclass
class Arrivals:
    """Messages that came since the reader began to listen."""

    kept: deque[Msg | None] = field(default_factory=deque["Msg | None"])
    room: int = ROOM
    came: asyncio.Event = field(default_factory=asyncio.Event)

    async def keep(self, message: Msg) -> None:
        """Keep a message if there is room for it."""
        size = len(message.data) + OVERHEAD
        if size > self.room:
            self.doubt()
            return
        self.room -= size
        self.kept.append(message)
        self.came.set()

    def doubt(self) -> None:
        """Give none in its turn: something may be lost here."""
        if not self.kept or self.kept[-1] is not None:
            self.kept.append(None)
        self.came.set()

    async def next(self, within: float) -> Msg | None:
        """Give the next message; none when none comes within these seconds, or some may be lost."""
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
    """Listen to what is republished of `subjects`."""
    came = Arrivals()
    try:
        async with subscribed(connection.nc, f"{LIVE}.{subjects}", came.keep):
            with connection.each_reconnect(came.doubt):
                yield came
    except errors.Error as error:
        raise Unavailable("nats", f"no subscription: {type(error).__name__}") from error
