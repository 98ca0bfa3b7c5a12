"""The pytest processes of a distributed run as forks of one that has imported the tests.

Each process of `pytest -n` collects all tests, and importing them with what they use takes three
quarters of that: ten seconds of processor time, and twenty where nothing is compiled yet.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import redirect_stdout
from pathlib import Path

import anyio
import pytest

from tests.support.processes.fork_server import WORKERS_SOCKET, start_fork_server
from tests.support.processes.forked_program import write_forked_program


def fork_workers(config: pytest.Config, folder: Path) -> None:
    """Have the processes forked that a run is about to start, if it is distributed."""
    if not config.getoption("tx", None):
        return
    # What the settings of a property leave out is that of the profile as its module is imported.
    profile = config.getoption("--hypothesis-profile")
    options = [f"--hypothesis-profile={profile}"] if profile else []
    start_fork_server(folder, [*options, *config.args])
    write_forked_program(program := folder / "worker", folder / WORKERS_SOCKET)
    config.option.tx = [f"popen//python={program}"] * len(config.option.tx)


class _ImportsOnly:
    """A plugin that keeps pytest from looking for tests in what it imports."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(self) -> list[pytest.Item]:
        return []

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Forget a module that failed: pytest leaves its half, and forks would find no error."""
        report = yield
        if report.failed and isinstance(collector, pytest.Module):
            for name, module in tuple(sys.modules.items()):
                if getattr(module, "__file__", None) == str(collector.path):
                    del sys.modules[name]
        return report


def import_tests(tests: Sequence[str]) -> None:
    """Import test modules as pytest does; the forks report what cannot be imported."""
    # It is a plugin of pytest too, and each fork would warn that it can no longer be rewritten.
    anyio.__doc__ = "PYTEST_DONT_REWRITE"
    options = ("--collect-only", "--capture=no", "-p", "no:cacheprovider")
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        pytest.main([*options, *tests], [_ImportsOnly()])
