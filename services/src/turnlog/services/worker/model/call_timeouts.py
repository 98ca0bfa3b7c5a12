"""The timeouts of a call, and the timer that enforces them.

Four limits have different meanings: a provider that cannot be reached, one that has not begun to
answer, one that stalled in the middle of an answer, and one that never ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from turnlog.projections.blueprint.schema.timeout_specs import TimeoutSpec
from turnlog.services.worker.media_room import MediaShare
from turnlog.services.worker.model.model_types import FailureCode, ModelFailure
from turnlog.services.worker.model.provider_errors import map_error


@dataclass(frozen=True, slots=True)
class CallTimeouts:
    """The timeouts of a call, in seconds."""

    connect: float = 10.0
    first_token: float = 300.0
    """Silence before the first text, tool call or reasoning: a local server may load its model
    first, and a reasoning model may think without a word.
    """
    between_tokens: float = 120.0
    """Silence between two of those."""
    total: float = 1200.0

    def apply_spec(self, spec: TimeoutSpec) -> CallTimeouts:
        """Return these timeouts, with those that are given in their place."""
        return replace(self, **spec.model_dump(exclude_none=True))


@dataclass(frozen=True, slots=True)
class CallDeadline:
    """A time of the event loop, and the failure that reaching it means."""

    at: float
    code: FailureCode


def find_deadline(
    timeouts: CallTimeouts, *, began: float, token: float | None, alive: float
) -> CallDeadline:
    """Return the nearest deadline.

    `token` is when the last token came, None before the first; `alive` when the provider last sent
    anything, be it a comment that keeps the connection open.
    """
    total = CallDeadline(began + timeouts.total, "timeout_total")
    if token is None:
        silence = CallDeadline(max(began, alive) + timeouts.first_token, "timeout_first_token")
    else:
        silence = CallDeadline(max(token, alive) + timeouts.between_tokens, "timeout_stalled")
    return min(silence, total, key=lambda each: each.at)


T = TypeVar("T")


class CallTimer:
    """The timer of one call, from its request to its last chunk.

    Whatever fails while waiting becomes a `ModelFailure` without a cause: the exceptions below it
    hold the prompt and the key and would reach a log. Cancellation is not a failure and passes
    through. A call has one timer, which checks the deadline when it fires: a timer for each token
    would cost as much as forwarding the token.
    """

    def __init__(self, timeouts: CallTimeouts) -> None:
        self._timeouts = timeouts
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._token: float | None = None
        self._alive = self._began
        self._answering = False
        self._is_silence_counted = True
        self._waiting: asyncio.Timeout | None = None
        self._timer: asyncio.TimerHandle | None = None

    def mark_accepted(self) -> None:
        """Record that the provider has accepted the request."""
        self._answering = True

    def mark_alive(self) -> None:
        """Record that the provider has sent something, which need not be a part of the answer."""
        self._alive = self._loop.time()

    def mark_token(self) -> None:
        """Record that a token was received and processed."""
        if self._token is None:
            self.stop()  # The stall deadline is sooner than the time for which the timer is set
        self._token = self._loop.time()

    @contextmanager
    def suspend_silence(self) -> Generator[None]:
        """Have only the timeout of the whole call apply while the body waits for other calls."""
        self._is_silence_counted = False
        try:
            yield
        finally:
            self._is_silence_counted = True
            self.mark_alive()
        self.stop()  # It may be set for the end of the whole call
        if self._waiting is not None:
            self._check_deadline()

    async def wait_for(self, work: Awaitable[T]) -> T:
        waiting = self._waiting = asyncio.timeout(None)
        try:
            async with waiting:
                if self._timer is None:
                    self._check_deadline()
                return await work
        except Exception as error:  # noqa: BLE001  # litellm raises what its providers' libraries raise
            failure = (
                ModelFailure(self._find_deadline().code)
                if waiting.expired()
                else map_error(error, accepted=self._answering, now=time.time())
            )
        finally:
            self._waiting = None
        failure.__context__ = None
        raise failure

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_deadline(self) -> None:
        """End the wait if its deadline has passed, or set the timer again."""
        self._timer = None
        if self._waiting is None:
            return  # The consumer is busy; its time does not count
        limit = self._find_deadline()
        if limit.at <= self._loop.time():
            self._waiting.reschedule(limit.at)
        else:
            self._timer = self._loop.call_at(limit.at, self._check_deadline)

    def _find_deadline(self) -> CallDeadline:
        if not self._is_silence_counted:
            return CallDeadline(self._began + self._timeouts.total, "timeout_total")
        return find_deadline(
            self._timeouts, began=self._began, token=self._token, alive=self._alive
        )


@dataclass(frozen=True, slots=True)
class ReadingCall:
    """What the response to a request of a call needs of that call while its bytes arrive."""

    timer: CallTimer
    frame_share: MediaShare
    """What it reserves for large frames, of a room that all calls of the process share."""


_READING_CALL: Final[ContextVar[ReadingCall]] = ContextVar("reading_call")


@contextmanager
def expect_bytes(call: ReadingCall) -> Generator[None]:
    """Have the responses to requests that the body sends tell a timer when bytes arrive.

    Libraries pass on what belongs to the answer and keep the comments that hold a connection open.
    """
    token = _READING_CALL.set(call)
    try:
        yield
    finally:
        _READING_CALL.reset(token)


def find_reading_call() -> ReadingCall | None:
    """Return the call that wants to know of arriving bytes, if there is one."""
    return _READING_CALL.get(None)


@contextmanager
def open_call_timer(timeouts: CallTimeouts) -> Generator[CallTimer]:
    """Yield the timer of one call, which stops with the body."""
    patience = CallTimer(timeouts)
    try:
        yield patience
    finally:
        patience.stop()
