"""The probe that measures how long an event loop was held, and names what held it.

Whatever runs for long on the event loop stops every turn, stream and health check of a process. A
timer on the loop measures how late it fires, and a thread looks at the stacks while the timer is
late. On a busy machine a timer is late as well, and in a process that was stopped, but no work held
that loop. So a hold is not the delay by the clock: it is the processor time that the loop's thread
used, and what is left of the delay without the time for which

- that thread waited for a processor, which Linux counts, and
- the whole process stood still, which the other thread notices because it wakes late as well while
  the process uses no processor time.

What is left is a call that blocks, or another thread that does not let go of the interpreter.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from types import FrameType
from typing import Final

import structlog
from opentelemetry.metrics import Histogram, Meter, get_meter

from turnlog.events.async_tasks import run_tasks

LONG_HOLD: Final = 0.25
"""Seconds from which on a hold is logged."""

HOLD_METRIC: Final = "turnlog.event_loop.hold.duration"

_INTERVAL: Final = 0.05

_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, LONG_HOLD, 0.5, 1.0, 2.5, 5.0, 10.0)

_STACK_DEPTH: Final = 6

_log = structlog.get_logger("turnlog.event_loop")


@dataclass(frozen=True, slots=True)
class LoopTimes:
    """Readings of the clocks of the loop's thread, in seconds."""

    elapsed: float
    """By the clock on the wall."""
    processor: float
    """For which the thread had a processor."""
    waiting: float
    """Time for which the thread waited for a processor; 0 if it is not measured."""
    standing: float
    """For which the process stood still."""

    def compute_since(self, before: LoopTimes) -> LoopTimes:
        """Return the times since earlier ones."""
        return LoopTimes(
            self.elapsed - before.elapsed,
            self.processor - before.processor,
            self.waiting - before.waiting,
            self.standing - before.standing,
        )


def compute_hold(times: LoopTimes) -> float:
    """Return for how long a loop was held that was to sleep for one interval.

    Thread and process may have waited at the same time, which is then left out twice: a machine
    that is busy is not blamed on the code, and what the code computed is in the hold in any case.
    """
    delay = times.elapsed - _INTERVAL
    return max(times.processor, delay - times.waiting - times.standing)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopHold:
    """One hold of a loop, as it is logged."""

    seconds: float = 0.0
    processor: float = 0.0
    """What of it the loop's thread computed; the rest is a call that blocked, or another thread."""
    delay: float = 0.0
    """How late the loop was by the clock on the wall."""
    running: str = "unknown"
    """What the loop was doing; only known of a long hold."""
    beside: tuple[str, ...] = ()
    """What other threads were doing, if most of it is no processor time of the loop."""


class StandstillClock:
    """Counts the time for which this process stood still.

    A thread that wakes at short intervals reports each wake. If it wakes late although the process
    used no processor time, the process was stopped or got no processor.
    """

    def __init__(self) -> None:
        self._last_wake = (0.0, time.perf_counter(), time.process_time())
        """The seconds counted so far, and both clocks; replaced as a whole, for other threads."""

    def record_wake(self) -> bool:
        """Note that the thread woke; return whether the process ran since it did so last."""
        counted, now = self._last_wake[0], self.read_seconds()
        self._last_wake = (now, time.perf_counter(), time.process_time())
        return now - counted < _INTERVAL

    def read_seconds(self) -> float:
        """Return the time until now, also where the thread has not woken yet."""
        counted, woken, processor_time = self._last_wake
        worked = time.process_time() - processor_time
        return counted + max(0.0, time.perf_counter() - woken - _INTERVAL - worked)


@dataclass(kw_only=True)
class LoopProbe:
    """Measures the event loop that starts it."""

    holds: Histogram
    longest: LoopHold = LoopHold()
    """The longest hold so far."""
    _thread: int = field(default_factory=threading.get_ident)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _standstill: StandstillClock = field(default_factory=StandstillClock)
    _beat: float = field(default_factory=time.perf_counter)
    """When the timer fired last."""
    _running: str | None = None
    """What the loop was doing while the timer was late."""
    _beside: tuple[str, ...] = ()
    """What other threads were doing then."""

    async def run_timer(self) -> None:
        """Measure until cancelled."""
        watching = threading.Thread(target=self._watch_loop, name="loop-probe", daemon=True)
        watching.start()
        with open_wait_clock() as read_wait:
            try:
                beat = self._read_times(read_wait)
                while True:
                    self._beat, self._running, self._beside = beat.elapsed, None, ()
                    await asyncio.sleep(_INTERVAL)
                    now = self._read_times(read_wait)
                    self._record_times(now.compute_since(beat))
                    beat = now
            finally:
                self._stopped.set()

    def _read_times(self, read_wait: Callable[[], float]) -> LoopTimes:
        return LoopTimes(
            time.perf_counter(),
            time.thread_time(),
            read_wait(),
            self._standstill.read_seconds(),
        )

    def _record_times(self, times: LoopTimes) -> None:
        seconds = compute_hold(times)
        self.holds.record(seconds)
        if seconds <= self.longest.seconds and seconds <= LONG_HOLD:
            return
        is_blocked = seconds > LONG_HOLD and times.processor < seconds / 2
        hold = LoopHold(
            seconds=round(seconds, 3),
            processor=round(times.processor, 3),
            delay=round(times.elapsed - _INTERVAL, 3),
            running=self._running or "unknown",
            beside=(self._beside or self._describe_others()) if is_blocked else (),
        )
        self.longest = max(self.longest, hold, key=attrgetter("seconds"))
        if seconds > LONG_HOLD:
            _log.warning("event-loop-blocked", **asdict(hold))

    def _watch_loop(self) -> None:
        """Look at the stacks whenever the loop's timer is late."""
        while not self._stopped.wait(_INTERVAL):
            has_run = self._standstill.record_wake()
            is_late = time.perf_counter() - self._beat > LONG_HOLD
            if is_late and has_run and self._running is None:
                self._running = _describe_stack(_list_frames().get(self._thread))
                self._beside = self._describe_others()

    def _describe_others(self) -> tuple[str, ...]:
        """Return what the other threads run, for one of them may have had the interpreter."""
        own = {self._thread, threading.get_ident()}
        others = (frame for thread, frame in _list_frames().items() if thread not in own)
        return tuple(filter(None, map(_describe_stack, others)))


_SCHEDULER_FILE: Final = "/proc/thread-self/schedstat"
"""Linux: nanoseconds run, nanoseconds waited for a processor, and time slices of a thread."""


@contextmanager
def open_wait_clock() -> Generator[Callable[[], float]]:
    """Yield a clock of the seconds that this thread waited for a processor; 0 if unmeasured.

    The file stays open: to open it at every beat took a quarter of what the probe computes.
    """
    try:
        file = os.open(_SCHEDULER_FILE, os.O_RDONLY)
    except OSError:
        yield lambda: 0.0
        return

    def read_seconds() -> float:
        try:
            return int(os.pread(file, 100, 0).split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0

    try:
        yield read_seconds
    finally:
        os.close(file)


def _list_frames() -> dict[int, FrameType]:
    """Return what the threads run; there is no other way to see it from outside."""
    return sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def _describe_stack(frame: FrameType | None) -> str | None:
    """Return the innermost calls of a stack, outermost first: `module:function:line`."""
    if frame is None:
        return None
    calls = [
        f"{each.f_globals.get('__name__', '?')}:{each.f_code.co_name}:{line}"
        for each, line in traceback.walk_stack(frame)
    ]
    return " > ".join(reversed(calls[:_STACK_DEPTH]))


@asynccontextmanager
async def run_loop_probe(meter: Meter | None = None) -> AsyncGenerator[LoopProbe]:
    """Measure the event loop while the body runs; by default for what the process exports."""
    probe = LoopProbe(holds=_create_histogram(meter or get_meter("turnlog")))
    async with run_tasks(probe.run_timer()):
        yield probe


def _create_histogram(meter: Meter) -> Histogram:
    return meter.create_histogram(
        HOLD_METRIC,
        unit="s",
        description="How long the event loop was held by one piece of work",
        explicit_bucket_boundaries_advisory=_BOUNDS,
    )
