"""How a process ends: on request, or because a component that it needs is lost.

On request it exits with code 0, also while it starts. After a loss it exits with code 1 and names
the component, so that its supervisor restarts it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import structlog

from turnlog.events.async_tasks import cancel_tasks, run_tasks
from turnlog.events.errors import TurnlogError, Unavailable

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_log = structlog.get_logger("turnlog.process")

StartedT = TypeVar("StartedT")


def _is_hangup_ignored(number: signal.Signals) -> bool:
    """Return whether it is the hangup of a terminal, and the process was started to outlive it."""
    return number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN


@dataclass
class Shutdown:
    """Waits for the end of a process and records why it ends."""

    _requested: asyncio.Event = field(default_factory=asyncio.Event)
    _failure: TurnlogError | None = None

    def handle_signals(self) -> None:
        """End on SIGTERM, on Ctrl-C, and when the terminal is closed, unless `nohup` started it."""
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            if not _is_hangup_ignored(number):
                loop.add_signal_handler(number, self._requested.set)

    def create_loss_callback(self, part: str) -> Callable[[], None]:
        """Return the callback for a component that is lost permanently."""

        def record_loss() -> None:
            self._record_failure(Unavailable(part, "the connection is closed permanently"))

        return record_loss

    @asynccontextmanager
    async def run_part(self, part: str, work: Coroutine[Any, Any, object]) -> AsyncGenerator[None]:
        """Run work that should never end while the body runs; the process ends if it does."""

        def record_end(task: asyncio.Task[Any]) -> None:
            if task.cancelled():
                return
            error = task.exception()
            known = error if isinstance(error, TurnlogError) else None
            self._record_failure(known or Unavailable(part, f"it ended unexpectedly: {error!r}"))

        async with run_tasks(work) as (task,):
            task.add_done_callback(record_end)
            yield

    def _record_failure(self, failure: TurnlogError) -> None:
        if self._failure is None and not self._requested.is_set():
            _log.error("component-failed", reason=str(failure))
            self._failure = failure
            self._requested.set()

    async def wait(self) -> None:
        """Wait for the end; raise the failure if there was one."""
        await self._requested.wait()
        if self._failure:
            raise self._failure

    async def run_until_end(
        self,
        service: AbstractAsyncContextManager[StartedT],
        on_started: Callable[[StartedT], None],
    ) -> None:
        """Run a service until the end; a start that is under way then is cancelled."""
        started = asyncio.Event()

        async def run() -> None:
            async with service as what:
                started.set()
                on_started(what)
                await self.wait()

        running = asyncio.create_task(run())
        requested = asyncio.create_task(self._requested.wait())
        try:
            await asyncio.wait({running, requested}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not started.is_set():
                # Once, and not by `cancel_tasks`: what has started is stopped in good order.
                running.cancel()
            await cancel_tasks(requested)
        await asyncio.wait({running})
        if running.cancelled():
            await self.wait()
        else:
            running.result()
