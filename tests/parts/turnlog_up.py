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

from tests.parts.forked import Process, fork

TURNLOG = Path(sys.executable).parent / "turnlog"
_READY = 60.0
"""Seconds until a start counts as hanging."""


@dataclass(frozen=True)
class Up:
    process: Process
    http: str
    data_dir: Path


@contextmanager
def turnlog_up(data_dir: Path, *options: str) -> Generator[Up]:
    """Run `turnlog up` while the body runs; it must exit with 0."""
    words = ("up", "--data-dir", str(data_dir), "--http", "127.0.0.1:0", *options)
    process = fork(words, dict(os.environ), data_dir.parent / f"{data_dir.name}.log")
    try:
        yield Up(process, _address(process, data_dir / "ready.json"), data_dir)
        process.terminate()
        assert process.ended(_READY) == 0
    finally:
        process.kill()


def _address(process: Process, ready: Path) -> str:
    until = time.monotonic() + _READY
    while not ready.exists():
        assert process.returncode is None, "it ended before it was ready"
        assert time.monotonic() < until, "it does not get ready"
        time.sleep(0.02)
    address: str = json.loads(ready.read_bytes())["http"]
    return address
