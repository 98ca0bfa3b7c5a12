"""What every test may ask for: real servers, shared by the tests of one pytest process.

Tests share a server and never its contents: each takes a tenant or a database of its own.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections import defaultdict
from collections.abc import Generator, Iterator
from functools import cache, partial
from itertools import chain
from pathlib import Path

import httpx
import hypothesis
import pytest
import structlog
from httpx._transports import default

from tests.support.processes.fork_server import announce_fork_server, forget_fork_server
from tests.support.processes.forked_workers import fork_workers
from tests.support.processes.turnlog_process import iterate_recent_outputs
from tests.support.sessions.reproduction_checks import MEMORY_LOGS
from turnlog.services.platform.gc_control import freeze_live_objects

pytest_plugins = [
    "tests.faults.loop_holds",
    "tests.support.servers.nats_fixtures",
    "tests.support.servers.postgres_server",
]

# A deadline would make a property depend on how busy the machine is. The suite draws the same cases
# every time; `--hypothesis-profile explore` draws others, and more where a test has no number.
hypothesis.settings.register_profile("explore", deadline=None, max_examples=500)
hypothesis.settings.register_profile("turnlog", deadline=None, derandomize=True)
hypothesis.settings.load_profile("turnlog")

MEMORY = Path("/dev/shm")  # noqa: S108 - a file system in memory, not a file of that name
ROOM = 4 * 1024**3
"""Bytes that the folders of all tests may come to."""


QUICK_SECONDS = 2.0
"""A test that takes longer, with the fixtures that it is the first to need, is marked `slow`."""

MAX_LISTED = 20
"""How many tests without the mark a run lists at most, the longest first."""

SIMULATION = "tests/simulation/"

COLLECTOR_THRESHOLDS = (20_000, 20, 20)
"""By default a collection follows on every 700 objects, many of which a single test creates."""


def pytest_configure(config: pytest.Config) -> None:
    """Put the folders of tests into memory, restore signals, keep compiled code, share forks.

    Every server syncs every acknowledgement, so on a disk half of the suite's time is waiting for
    it. No test cuts the power: what was synced into memory outlives any process that is killed.
    """
    # A shell starts a background job with SIGINT ignored, and `nohup` one with SIGHUP. What tests
    # start would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None
    # A container often says that compiled code is not kept. Here hundreds of processes start, and
    # each would compile again what it imports, which is two thirds of the time it takes to start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # Every client of HTTP would read the certificates again, to speak without TLS on loopback.
    default.__dict__["create_ssl_context"] = cache(httpx.create_ssl_context)
    if folder := announce_fork_server():
        config.add_cleanup(partial(forget_fork_server, folder))
        fork_workers(config, folder)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the garbage collector what every process of the suite loads and keeps.

    The modules and the collected tests live until the end, and every full collection would walk
    them again unless they are frozen.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        freeze_live_objects()
        gc.set_threshold(*COLLECTOR_THRESHOLDS)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Refuse parameters from a set: each process of the suite would order them differently."""
    for marker in metafunc.definition.iter_markers("parametrize"):
        if isinstance(marker.args[1], set | frozenset):
            message = f"{metafunc.definition.nodeid}: the parameters are a set; sort them"
            raise pytest.UsageError(message)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse the mark `slow` without its reason; begin with the simulation.

    It computes and never waits: at the end, few processes would have anything else to do meanwhile.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(SIMULATION))
    for item in items:
        for marker in item.iter_markers("slow"):
            if len(marker.args) != 1 or not isinstance(marker.args[0], str):
                message = f"{item.nodeid}: `slow` takes one argument, why it takes its time"
                raise pytest.UsageError(message)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List what took long and has no mark, which fails nothing: a busy machine slows every test."""
    seconds = defaultdict[str, float](float)
    for report in chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport) and "slow" not in report.keywords:
            seconds[report.nodeid] += report.duration
    unmarked = {test: duration for test, duration in seconds.items() if duration > QUICK_SECONDS}
    if unmarked:
        terminalreporter.section(f"over {QUICK_SECONDS:g} s without the mark `slow`")
    for test in sorted(unmarked, key=unmarked.__getitem__, reverse=True)[:MAX_LISTED]:
        terminalreporter.write_line(f"{unmarked[test]:7.2f} s  {test}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the processes wrote that were started last, if a test failed."""
    report = yield
    if report.failed:
        report.sections += [("a process's output", text) for text in iterate_recent_outputs()]
    return report


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """A command that a test runs in this process sends its log elsewhere, and then ends."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def every_call_can_be_had_again(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test of sessions in memory is a test of their record too."""
    yield
    if request.node.get_closest_marker("tampers"):
        MEMORY_LOGS.remove_logs()
    assert MEMORY_LOGS.find_failures() == []


@pytest.fixture
def fresh_tenant() -> str:
    return f"tenant-{uuid.uuid4().hex[:12]}"
