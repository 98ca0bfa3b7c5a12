"""`turnlog up` as a process of its own, on a free port, ended by its id."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TURNLOG = Path(sys.executable).parent / "turnlog"
_READY = 60.0
"""Seconds: a bound on hanging."""


@dataclass(frozen=True)
class Up:
    process: subprocess.Popen[bytes]
    http: str
    data_dir: Path


@contextmanager
def turnlog_up(data_dir: Path, *options: str) -> Generator[Up]:
    """Run `turnlog up` while the body runs, and see that it ends in good order."""
    command = [str(TURNLOG), "up", "--data-dir", str(data_dir), "--http", "127.0.0.1:0", *options]
    with (data_dir.parent / f"{data_dir.name}.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield Up(process, _address(process, data_dir / "ready.json"), data_dir)
            process.send_signal(signal.SIGTERM)
            assert process.wait(_READY) == 0
        finally:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[bytes], ready: Path) -> str:
    until = time.monotonic() + _READY
    while not ready.exists():
        assert process.poll() is None, "it ended before it was ready"
        assert time.monotonic() < until, "it does not get ready"
        time.sleep(0.02)
    address: str = json.loads(ready.read_bytes())["http"]
    return address
