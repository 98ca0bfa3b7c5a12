"""How a process ends: on request, or because a component that it needs is lost.

On request it exits with code 0. After a loss it exits with code 1 and names the component, so that
its supervisor restarts it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from turnlog.events.errors import TurnlogError, Unavailable

_log = structlog.get_logger("turnlog.process")


@dataclass
class Shutdown:
    """Waits for the end of a process and records why it ends."""

    _requested: asyncio.Event = field(default_factory=asyncio.Event)
    _failure: TurnlogError | None = None

    def handle_signals(self) -> None:
        """End on SIGTERM, on Ctrl-C, and when the terminal is closed."""
        loop = asyncio.get_running_loop()
        for told in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(told, self._requested.set)

    def create_loss_callback(self, part: str) -> Callable[[], None]:
        """Return the callback for a component that is lost permanently."""

        def gone() -> None:
            self._record_failure(Unavailable(part, "the connection is closed permanently"))

        return gone

    def watch_task(self, task: asyncio.Task[Any], part: str) -> asyncio.Task[Any]:
        """End the process when a task that should run forever ends."""

        def done(task: asyncio.Task[Any]) -> None:
            if task.cancelled():
                return
            error = task.exception()
            known = error if isinstance(error, TurnlogError) else None
            self._record_failure(known or Unavailable(part, f"it ended unexpectedly: {error!r}"))

        task.add_done_callback(done)
        return task

    def _record_failure(self, failure: TurnlogError) -> None:
        if self._failure is None and not self._requested.is_set():
            _log.error("part-lost", reason=str(failure))
            self._failure = failure
            self._requested.set()

    async def wait(self) -> None:
        """Wait for the end; raise the failure if there was one."""
        await self._requested.wait()
        if self._failure:
            raise self._failure
