"""The probe that names what holds an event loop."""

from __future__ import annotations

import asyncio
import time

from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from structlog.testing import capture_logs

from turnlog.services.platform.telemetry.loop_probe import (
    HOLD_METRIC,
    LONG_HOLD,
    run_measured_probe,
)


def spin_processor(seconds: float) -> None:
    """Compute for so long, not counting the time without a processor."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def block_loop(seconds: float) -> None:
    time.sleep(seconds)


async def test_what_holds_the_loop_is_measured_and_named() -> None:
    reader = InMemoryMetricReader()
    with capture_logs() as logged:
        async with run_measured_probe("worker", reader) as probe:
            await asyncio.sleep(0.1)
            for hold in (spin_processor, block_loop):
                hold(3 * LONG_HOLD)
                await asyncio.sleep(0.1)
            metrics = reader.get_metrics_data()
    warnings = [each for each in logged if each["event"] == "loop-held"]
    assert [each["log_level"] for each in warnings] == ["warning", "warning"]
    assert "spin_processor" in warnings[0]["running"]
    assert "block_loop" in warnings[1]["running"]
    assert all(each["seconds"] > LONG_HOLD for each in warnings)
    assert probe.longest >= 2 * LONG_HOLD
    assert metrics is not None
    (resource,) = metrics.resource_metrics
    assert resource.resource.attributes["service.name"] == "turnlog-worker"
    (metric,) = resource.scope_metrics[0].metrics
    assert (metric.name, metric.unit) == (HOLD_METRIC, "s")
    assert sum(point.count for point in metric.data.data_points) >= len(warnings)  # type: ignore[union-attr,misc]


async def test_a_loop_that_waits_is_not_held() -> None:
    with capture_logs() as logged:
        async with run_measured_probe("worker"):
            await asyncio.sleep(2 * LONG_HOLD)
            await asyncio.to_thread(block_loop, 2 * LONG_HOLD)
    assert logged == []
