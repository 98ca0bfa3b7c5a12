from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from typing import TypeVar

from turnlog.services.worker.model.diagnosis import diagnose
from turnlog.services.worker.model.failures import ModelFailure
from turnlog.services.worker.model.timeouts import Deadline, Timeouts, deadline

T = TypeVar("T")


class Patience:
    """The timer of one call, from its request to its last chunk.

    Whatever fails while waiting becomes a `ModelFailure` without a cause: the exceptions below it
    hold the prompt and the key and would reach a log. Cancellation is not a failure and passes
    through. A call has one timer, which checks the deadline when it fires: a timer for each token
    would cost as much as forwarding the token.
    """

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._token: float | None = None
        self._answering = False
        self._waiting: asyncio.Timeout | None = None
        self._timer: asyncio.TimerHandle | None = None

    def answering(self) -> None:
        """Record that the provider has accepted the request."""
        self._answering = True

    def heard(self) -> None:
        """Record that a token was received and processed."""
        if self._token is None:
            self.end()  # The stall deadline is sooner than the time for which the timer is set
        self._token = self._loop.time()

    async def wait(self, work: Awaitable[T]) -> T:
        waiting = self._waiting = asyncio.timeout(None)
        try:
            async with waiting:
                if self._timer is None:
                    self._look()
                return await work
        except Exception as error:  # noqa: BLE001  # litellm raises what its providers' libraries raise
            failure = (
                ModelFailure(self._limit().code)
                if waiting.expired()
                else diagnose(error, answering=self._answering, now=time.time())
            )
        finally:
            self._waiting = None
        failure.__context__ = None
        raise failure

    def end(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """End the wait if its deadline has passed, or set the timer again."""
        self._timer = None
        if self._waiting is None:
            return  # The consumer is busy; its time does not count
        limit = self._limit()
        if limit.at <= self._loop.time():
            self._waiting.reschedule(limit.at)
        else:
            self._timer = self._loop.call_at(limit.at, self._look)

    def _limit(self) -> Deadline:
        return deadline(self._timeouts, began=self._began, token=self._token)


@contextmanager
def patient(timeouts: Timeouts) -> Generator[Patience]:
    """Yield the timer of one call, which stops with the body."""
    patience = Patience(timeouts)
    try:
        yield patience
    finally:
        patience.end()
