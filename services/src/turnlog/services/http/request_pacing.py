"""ASGI middleware that starts a crowd of requests in small groups.

Hundreds of requests arrive at once when a gateway comes back and every watcher connects again. What
the event loop finds ready in one pass it runs before anything else, and a request costs it some two
milliseconds before it first waits. So only some start in one pass; streams, timers and health
checks get their turn between two groups.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

STARTS_PER_PASS: Final = 16
"""How many requests start in one pass of the event loop."""


@dataclass(slots=True)
class RequestPacing:
    """ASGI middleware that lets requests start in the order in which they came."""

    app: ASGIApp
    _free: int = STARTS_PER_PASS
    """How many more may start in this pass."""
    _waiting: deque[asyncio.Future[None]] = field(default_factory=deque["asyncio.Future[None]"])
    _is_next_pass_due: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request as soon as it may start."""
        if scope["type"] == "http":
            await self._wait_for_start()
        await self.app(scope, receive, send)

    async def _wait_for_start(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._is_next_pass_due:
            self._is_next_pass_due = True
            loop.call_soon(self._begin_pass, loop)
        if self._free and not self._waiting:
            self._free -= 1
            return
        start = loop.create_future()
        self._waiting.append(start)
        await start

    def _begin_pass(self, loop: asyncio.AbstractEventLoop) -> None:
        self._free = STARTS_PER_PASS
        while self._free and self._waiting:
            start = self._waiting.popleft()
            if not start.done():  # The client of a cancelled one is gone.
                start.set_result(None)
                self._free -= 1
        self._is_next_pass_due = bool(self._waiting)
        if self._waiting:
            loop.call_soon(self._begin_pass, loop)
