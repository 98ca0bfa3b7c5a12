"""The probe that measures how long an event loop was held, and names what held it.

Whatever runs for long on the event loop stops every turn, stream and health check of a process. A
timer on the loop measures how late it fires, and a thread looks at the loop's stack while the timer
is late. A process that was stopped or got no processor is late too, but nothing held its loop: the
time for which the loop's thread waited for a processor, as Linux counts it, is not part of a hold.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

import structlog
from opentelemetry.metrics import Histogram, Meter, NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource

from turnlog.events.async_tasks import run_tasks
from turnlog.services.platform.concurrency import run_in_thread

LONG_HOLD: Final = 0.25
"""Seconds from which on a hold is logged."""

HOLD_METRIC: Final = "turnlog.event_loop.hold.duration"

_INTERVAL: Final = 0.05

_HISTOGRAM: Final = ExplicitBucketHistogramAggregation(
    (0.005, 0.01, 0.025, 0.05, 0.1, LONG_HOLD, 0.5, 1.0, 2.5, 5.0, 10.0)
)

_STACK_DEPTH: Final = 6

_log = structlog.get_logger("turnlog.event_loop")


@dataclass
class LoopProbe:
    """Measures the event loop that starts it."""

    holds: Histogram
    longest: float = 0.0
    """Seconds of the longest hold so far."""
    _thread: int = field(default_factory=threading.get_ident)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _beat: float = 0.0
    """When the timer fired last."""
    _processor_time: float = 0.0
    """The processor time of this process then."""
    _waited: float = 0.0
    """For how long the loop's thread had waited for a processor then."""
    _stack: str | None = None
    """What the loop was doing while the timer was late."""

    async def run_timer(self) -> None:
        """Measure until cancelled."""
        watching = threading.Thread(target=self._watch_loop, name="loop-probe", daemon=True)
        self._mark_beat()
        watching.start()
        try:
            while True:
                await asyncio.sleep(_INTERVAL)
                delay = time.perf_counter() - self._beat - _INTERVAL
                self._record_delay(max(0.0, delay - _read_processor_wait() + self._waited))
                self._mark_beat()
        finally:
            self._stopped.set()

    def _mark_beat(self) -> None:
        self._beat, self._processor_time = time.perf_counter(), time.process_time()
        self._waited, self._stack = _read_processor_wait(), None

    def _record_delay(self, seconds: float) -> None:
        worked = time.process_time() - self._processor_time
        if self._stack is None and worked < seconds / 2:
            return  # The process itself did not run
        self.longest = max(self.longest, seconds)
        self.holds.record(seconds)
        if seconds > LONG_HOLD:
            running = self._stack or "unknown"
            _log.warning("loop-held", seconds=round(seconds, 3), running=running)

    def _watch_loop(self) -> None:
        """Look at the loop's stack whenever its timer is late."""
        woken = time.perf_counter()
        while not self._stopped.wait(_INTERVAL):
            now = time.perf_counter()
            was_running = now - woken < 2 * _INTERVAL or self._has_worked(now - woken)
            woken = now
            is_late = now - self._beat > LONG_HOLD
            if is_late and was_running and self._stack is None:
                self._stack = _describe_stack(_get_frame(self._thread))

    def _has_worked(self, seconds: float) -> bool:
        """Return whether the process had the processor, for this thread may have had to wait."""
        return time.process_time() - self._processor_time >= seconds / 2


_SCHEDULER_FILE: Final = Path("/proc/thread-self/schedstat")
"""Linux: nanoseconds run, nanoseconds waited for a processor, and time slices of a thread."""


def _read_processor_wait() -> float:
    """Return for how many seconds this thread has waited for a processor; 0 where nobody counts."""
    try:
        return int(_SCHEDULER_FILE.read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _get_frame(thread: int) -> FrameType | None:
    """Return what a thread runs; there is no other way to see it from outside."""
    frames = sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return frames.get(thread)


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
async def run_loop_probe(service: str, endpoint: str | None) -> AsyncGenerator[LoopProbe]:
    """Measure the event loop while the body runs, and export what was measured to an endpoint."""
    reader = _create_reader(endpoint) if endpoint else None
    async with run_measured_probe(service, reader) as probe:
        yield probe


@asynccontextmanager
async def run_measured_probe(
    service: str, reader: MetricReader | None = None
) -> AsyncGenerator[LoopProbe]:
    """Measure the event loop while the body runs; a reader gets the histogram."""
    provider = reader and MeterProvider(
        [reader],
        Resource.create({"service.name": f"turnlog-{service}"}),
        views=[View(instrument_name=HOLD_METRIC, aggregation=_HISTOGRAM)],
    )
    probe = LoopProbe(_create_histogram((provider or NoOpMeterProvider()).get_meter("turnlog")))
    try:
        async with run_tasks(probe.run_timer()):
            yield probe
    finally:
        if provider:
            await run_in_thread(provider.shutdown)


def _create_histogram(meter: Meter) -> Histogram:
    return meter.create_histogram(
        HOLD_METRIC, unit="s", description="How long the event loop was held by one piece of work"
    )


def _create_reader(endpoint: str) -> MetricReader:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - half a second that nobody needs without an endpoint
        OTLPMetricExporter,
    )

    return PeriodicExportingMetricReader(OTLPMetricExporter(f"{endpoint}/v1/metrics"))
