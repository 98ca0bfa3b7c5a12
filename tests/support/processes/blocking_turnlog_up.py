"""`turnlog up` for tests that are not asynchronous, on a free port."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes.turnlog_process import TurnlogProcess, fork_turnlog

TURNLOG_PROGRAM = Path(sys.executable).parent / "turnlog"

_READY_TIMEOUT = 60.0
"""Seconds until a start counts as hanging."""


@dataclass(frozen=True)
class BlockingTurnlogUp:
    process: TurnlogProcess
    http: str
    data_dir: Path


@contextmanager
def run_blocking_turnlog_up(data_dir: Path, *options: str) -> Generator[BlockingTurnlogUp]:
    """Run `turnlog up` while the body runs; it must exit with 0."""
    log = data_dir.parent / f"{data_dir.name}.log"
    words = ("up", "--data-dir", str(data_dir), "--http", "127.0.0.1:0", *options)
    process = fork_turnlog(words, dict(os.environ), log)
    try:
        yield BlockingTurnlogUp(
            process, _wait_for_address(process, data_dir / "ready.json"), data_dir
        )
        process.terminate_process()
        assert process.join_process(_READY_TIMEOUT) == 0, process.describe_output()
    finally:
        process.kill_process()


def _wait_for_address(process: TurnlogProcess, ready: Path) -> str:
    until = time.monotonic() + _READY_TIMEOUT
    while not ready.exists():
        assert process.returncode is None, process.describe_output()
        assert time.monotonic() < until, "it does not get ready"
        time.sleep(0.02)
    address: str = json.loads(ready.read_bytes())["http"]
    return address
