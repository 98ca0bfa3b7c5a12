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
from turnlog.events.ids import REPUBLISH_PREFIX
from turnlog.events.nats.connection import NatsConnection, open_subscription

LIVE_BUFFER_BYTES: Final = 4 * 1024 * 1024
"""Bytes buffered for a reader that does not read yet."""
MESSAGE_OVERHEAD_BYTES: Final = 1024
"""Bytes counted per message in addition to its payload."""


@dataclass
class LiveSubscription:
    """Messages that arrived since the subscription was opened."""

    queue: deque[Msg | None] = field(default_factory=deque["Msg | None"])
    free_bytes: int = LIVE_BUFFER_BYTES
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def add_message(self, message: Msg) -> None:
        """Buffer a message if there is space for it."""
        size = len(message.data) + MESSAGE_OVERHEAD_BYTES
        if size > self.free_bytes:
            self.mark_possible_loss()
            return
        self.free_bytes -= size
        self.queue.append(message)
        self.arrived.set()

    def mark_possible_loss(self) -> None:
        """Queue a None: messages may have been lost at this point."""
        if not self.queue or self.queue[-1] is not None:
            self.queue.append(None)
        self.arrived.set()

    async def wait_for_next(self, timeout: float) -> Msg | None:
        """Return the next message; None after `timeout` seconds or after a possible loss."""
        if not self.queue:
            self.arrived.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self.arrived.wait()
        if not self.queue:
            return None
        message = self.queue.popleft()
        if message is not None:
            self.free_bytes += len(message.data) + MESSAGE_OVERHEAD_BYTES
        return message


@asynccontextmanager
async def open_live_subscription(connection: NatsConnection, subjects: str) -> AsyncGenerator[LiveSubscription]:
    """Subscribe to the republished messages of `subjects`."""
    came = LiveSubscription()
    try:
        async with open_subscription(connection.nc, f"{REPUBLISH_PREFIX}.{subjects}", came.add_message):
            with connection.watch_reconnects(came.mark_possible_loss):
                yield came
    except errors.Error as error:
        raise Unavailable("nats", f"no subscription: {type(error).__name__}") from error
