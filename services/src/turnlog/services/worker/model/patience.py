"""Waits for a provider, no longer than the call's timeouts allow.

Whatever goes wrong while waiting comes out as a `ModelFailure` that drags nothing along: the
exceptions beneath it hold the prompt and the key, and would end up in a log. Being cancelled is not
a failure and passes through.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

from turnlog.services.worker.model.diagnosis import diagnose
from turnlog.services.worker.model.failures import ModelFailure
from turnlog.services.worker.model.timeouts import Timeouts, deadline

T = TypeVar("T")


class Patience:
    """That of one call, from its request to its last chunk."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self._token: float | None = None
        self._answering = False

    def answering(self) -> None:
        """The provider has accepted the request."""
        self._answering = True

    def heard(self) -> None:
        """A token has come and been dealt with; what follows is waiting for the next."""
        self._token = self._clock()

    async def wait(self, work: Awaitable[T]) -> T:
        limit = deadline(self._timeouts, began=self._began, token=self._token)
        timer = asyncio.timeout_at(limit.at)
        try:
            async with timer:
                return await work
        except Exception as error:  # noqa: BLE001  # litellm raises what its providers' libraries raise
            failure = (
                ModelFailure(limit.code)
                if timer.expired()
                else diagnose(error, answering=self._answering, now=time.time())
            )
        failure.__context__ = None
        raise failure
