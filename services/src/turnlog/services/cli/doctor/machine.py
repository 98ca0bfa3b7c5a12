from __future__ import annotations

import shutil
import socket
import tempfile
import time
from contextlib import closing
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from turnlog.services.cli.doctor.finding import CheckFinding, report_failure, report_good, report_warning

_LOW_DISK_BYTES: Final = 1 << 30
"""Free bytes below which a disk counts as nearly full."""
_CLOCK_TOLERANCE: Final = 5.0
"""Seconds that a file may lie in the future, because file systems have their own clocks."""
_GIGABYTE: Final = 1e9


def check_data_dir(data_dir: Path) -> CheckFinding:
    """Check that files can be created in the data directory, or where it would be created."""
    place = find_existing_directory(data_dir)
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        fix = "give another one with --data-dir, or change its owner"
        return report_failure("data directory", f"{place}: {error.strerror}", fix)
    said = str(data_dir) if data_dir.exists() else f"{data_dir}, to be made"
    return report_good("data directory", said)


def find_existing_directory(path: Path) -> Path:
    """Return the directory itself, or its nearest existing parent."""
    whole = path.absolute()
    return next(place for place in (whole, *whole.parents) if place.exists())


def check_disk(data_dir: Path) -> CheckFinding:
    """Check the free space."""
    free = shutil.disk_usage(find_existing_directory(data_dir)).free
    said = f"{free / _GIGABYTE:,.1f} GB free"
    if free < _LOW_DISK_BYTES:
        return report_warning("disk", said, "make room: the log takes no event that it cannot keep")
    return report_good("disk", said)


def check_http_port(address: str, running: str | None) -> CheckFinding:
    """Check that the HTTP port is free or used by the running service."""
    host, _, number = address.rpartition(":")
    if running is not None:
        return report_good("HTTP", f"{running} answers")
    with closing(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), int(number)))
        except OSError as error:
            fix = "end what listens there, or start with --http 127.0.0.1:0"
            return report_failure("HTTP", f"{address}: {error.strerror}", fix)
    return report_good("HTTP", f"{address} is free")


def check_clock(data_dir: Path) -> CheckFinding:
    """Check that the clock is not behind the files in the data directory."""
    written = [path.stat().st_mtime for path in data_dir.glob("*") if path.is_file()]
    behind = max(written, default=0.0) - time.time()
    if behind > _CLOCK_TOLERANCE:
        said = f"{behind:,.0f} s behind what stands in {data_dir}"
        return report_warning("clock", said, "set it: events carry its time")
    return report_good("clock", time.strftime("%Y-%m-%d %H:%M:%S %Z"))


def check_model_library() -> CheckFinding:
    """Check that litellm is installed without importing it, which takes seconds."""
    if find_spec("litellm") is None:
        return report_failure("litellm", "not installed", "run `make install`")
    return report_good("litellm", metadata.version("litellm"))
