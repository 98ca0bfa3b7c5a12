"""Waits for a provider, no longer than the call's timeouts allow.

Whatever goes wrong while waiting comes out as a `ModelFailure` that drags nothing along: the
exceptions beneath it hold the prompt and the key, and would end up in a log. Being cancelled is not
a failure and passes through. A call has one timer, which looks at the deadline when it goes off:
one for each token would cost as much as sending the token on.
"""

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
    """That of one call, from its request to its last chunk."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._token: float | None = None
        self._answering = False
        self._waiting: asyncio.Timeout | None = None
        self._timer: asyncio.TimerHandle | None = None

    def answering(self) -> None:
        """The provider has accepted the request."""
        self._answering = True

    def heard(self) -> None:
        """A token has come and been dealt with; what follows is waiting for the next."""
        if self._token is None:
            self.end()  # silence now ends sooner than the timer would look
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
        """Nothing is waited for any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """End the waiting when its time is up, or look again when it will be."""
        self._timer = None
        if self._waiting is None:
            return  # the reader takes its time, which is its own
        limit = self._limit()
        if limit.at <= self._loop.time():
            self._waiting.reschedule(limit.at)
        else:
            self._timer = self._loop.call_at(limit.at, self._look)

    def _limit(self) -> Deadline:
        return deadline(self._timeouts, began=self._began, token=self._token)


@contextmanager
def patient(timeouts: Timeouts) -> Generator[Patience]:
    """Give the patience of one call, which ends with the body."""
    patience = Patience(timeouts)
    try:
        yield patience
    finally:
        patience.end()
