"""The probe that names what holds an event loop."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from structlog.testing import capture_logs

from tests.support.processes.loop_holds import assert_loop_free
from turnlog.services.cli.process_log import configure_log
from turnlog.services.platform.telemetry.loop_probe import (
    HOLD_METRIC,
    LONG_HOLD,
    LoopTimes,
    compute_hold,
    run_loop_probe,
)


def spin_processor(seconds: float) -> None:
    """Compute for so long, not counting the time without a processor."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def block_loop(seconds: float) -> None:
    time.sleep(seconds)


async def test_code_that_blocks_the_event_loop_is_measured_and_named() -> None:
    reader = InMemoryMetricReader()
    with capture_logs() as logged:
        async with run_loop_probe(MeterProvider([reader]).get_meter("test")) as probe:
            await asyncio.sleep(0.1)
            for hold in (spin_processor, block_loop):
                hold(3 * LONG_HOLD)
                await asyncio.sleep(0.1)
            metrics = reader.get_metrics_data()
    warnings = [each for each in logged if each["event"] == "event-loop-blocked"]
    assert [each["log_level"] for each in warnings] == ["warning", "warning"]
    assert "spin_processor" in warnings[0]["running"]
    assert "block_loop" in warnings[1]["running"]
    assert all(each["seconds"] > LONG_HOLD for each in warnings)
    assert warnings[0]["processor"] > 2 * LONG_HOLD > warnings[1]["processor"]
    assert probe.longest.seconds >= 2 * LONG_HOLD
    assert metrics is not None
    (resource,) = metrics.resource_metrics
    (metric,) = resource.scope_metrics[0].metrics
    assert (metric.name, metric.unit) == (HOLD_METRIC, "s")
    assert sum(point.count for point in metric.data.data_points) >= len(warnings)  # type: ignore[union-attr,misc]


async def test_fault_programme_fails_on_a_log_with_a_loop_held_warning(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with log.open("w") as stream:
        configure_log(stream, "console", minimum_level="info")
        async with run_loop_probe():
            await asyncio.sleep(0.1)
            assert_loop_free(log)
            block_loop(3 * LONG_HOLD)
            await asyncio.sleep(0.1)
    with pytest.raises(AssertionError, match="block_loop"):
        assert_loop_free(log)


async def test_thread_that_holds_the_interpreter_lock_is_named() -> None:
    previous = sys.getswitchinterval()
    with capture_logs() as logged:
        async with run_loop_probe():
            await asyncio.sleep(0.1)
            sys.setswitchinterval(60)  # As a long call of the interpreter does
            try:
                await asyncio.to_thread(spin_processor, 3 * LONG_HOLD)
            finally:
                sys.setswitchinterval(previous)
            await asyncio.sleep(0.1)
    (warning,) = logged
    assert warning["processor"] < LONG_HOLD < warning["seconds"]
    assert any("concurrent.futures" in stack for stack in warning["beside"])


async def test_idle_loop_is_not_reported_as_held() -> None:
    with capture_logs() as logged:
        async with run_loop_probe():
            await asyncio.sleep(2 * LONG_HOLD)
            await asyncio.to_thread(block_loop, 2 * LONG_HOLD)
    assert logged == []


MEASURED_PROCESS = """
import asyncio, sys
from turnlog.services.platform.telemetry.loop_probe import run_loop_probe

async def measure():
    async with run_loop_probe() as probe:
        await asyncio.sleep(0.1)
        print("running", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await asyncio.sleep(0.1)
    print(probe.longest.seconds)

asyncio.run(measure())
"""


async def test_suspended_process_is_not_reported_as_holding_its_loop() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", MEASURED_PROCESS), stdin=PIPE, stdout=PIPE
    )
    assert process.stdout
    assert await process.stdout.readline() == b"running\n"
    process.send_signal(signal.SIGSTOP)
    await asyncio.sleep(4 * LONG_HOLD)
    process.send_signal(signal.SIGCONT)
    output, _ = await process.communicate(b"")
    assert process.returncode == 0
    assert float(output) < LONG_HOLD


@pytest.mark.parametrize(
    ("times", "hold"),
    [
        (LoopTimes(elapsed=0.06, processor=0.001, waiting=0.0, standing=0.0), 0.01),
        (LoopTimes(elapsed=1.05, processor=0.2, waiting=0.8, standing=0.0), 0.2),
        (LoopTimes(elapsed=1.05, processor=0.2, waiting=0.3, standing=0.7), 0.2),
        (LoopTimes(elapsed=1.05, processor=0.0, waiting=0.0, standing=1.0), 0.0),
        (LoopTimes(elapsed=1.05, processor=0.0, waiting=0.0, standing=0.0), 1.0),
        (LoopTimes(elapsed=1.05, processor=0.9, waiting=0.3, standing=0.0), 0.9),
    ],
    ids=["idle", "busy machine", "starved process", "stopped", "blocked", "computing"],
)
def test_hold_excludes_delays_caused_by_the_machine(times: LoopTimes, hold: float) -> None:
    assert compute_hold(times) == pytest.approx(hold)
