"""Checks of this machine: nats-server, directory, disk, ports, clock, litellm.

Each check returns a `CheckFinding` and changes nothing. JetStream is checked by starting a
nats-server on an empty temporary directory.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import tempfile
import time
from contextlib import closing
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from turnlog.events.errors import TurnlogError
from turnlog.services.cli.doctor.check_findings import (
    CheckFinding,
    report_failure,
    report_good,
    report_warning,
)
from turnlog.services.platform.durability import check_durability
from turnlog.services.platform.nats_server import NatsConfig, NatsServer, find_server_binary

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
    detail = str(data_dir) if data_dir.exists() else f"{data_dir}, to be made"
    return report_good("data directory", detail)


def find_existing_directory(path: Path) -> Path:
    """Return the directory itself, or its nearest existing parent."""
    absolute = path.absolute()
    return next(place for place in (absolute, *absolute.parents) if place.exists())


def check_disk(data_dir: Path) -> CheckFinding:
    """Check the free space."""
    free = shutil.disk_usage(find_existing_directory(data_dir)).free
    detail = f"{free / _GIGABYTE:,.1f} GB free"
    if free < _LOW_DISK_BYTES:
        return report_warning(
            "disk", detail, "make room: the log takes no event that it cannot keep"
        )
    return report_good("disk", detail)


def check_port(what: str, address: str, option: str) -> CheckFinding:
    """Check that an address is free to listen on."""
    host, _, number = address.rpartition(":")
    if number == "0":
        return report_good(what, f"any free port of {host}")
    fix = f"stop the process that listens there, or start with {option} 127.0.0.1:0"
    with closing(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), int(number)))
        except ValueError:
            return report_failure(what, f"{address!r} is not HOST:PORT", f"correct {option}")
        except OSError as error:
            return report_failure(what, f"{address}: {error.strerror}", fix)
    return report_good(what, f"{address} is free")


def check_clock(data_dir: Path) -> CheckFinding:
    """Check that the clock is not behind the files in the data directory."""
    written = [path.stat().st_mtime for path in data_dir.glob("*") if path.is_file()]
    behind = max(written, default=0.0) - time.time()
    if behind > _CLOCK_TOLERANCE:
        detail = f"{behind:,.0f} s behind what stands in {data_dir}"
        return report_warning("clock", detail, "set it: events carry its time")
    return report_good("clock", time.strftime("%Y-%m-%d %H:%M:%S %Z"))


def check_model_library() -> CheckFinding:
    """Check that litellm is installed without importing it, which takes seconds."""
    if find_spec("litellm") is None:
        return report_failure("litellm", "not installed", "run `make install`")
    return report_good("litellm", metadata.version("litellm"))


async def check_nats_binary() -> CheckFinding:
    """Check that nats-server is installed, and its version."""
    try:
        path = find_server_binary()
        process = await asyncio.create_subprocess_exec(
            path, "--version", stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
    except (TurnlogError, OSError) as error:
        return report_failure("nats-server", str(error), "run `make install`")
    return report_good("nats-server", output.decode().strip().removeprefix("nats-server: "))


async def check_jetstream() -> tuple[CheckFinding, ...]:
    """Start a server on an empty directory and check its durability level."""
    with tempfile.TemporaryDirectory(prefix="turnlog-doctor-") as place:
        try:
            async with await NatsServer.start(
                NatsConfig(data_dir=Path(place), monitor=True)
            ) as server:
                monitors = filter(None, [server.monitor_url])
                level = await check_durability("fsync-acked", 1, tuple(monitors))
        except TurnlogError as error:
            return (
                report_failure(
                    "JetStream", str(error), "look at the server's log; run `make install`"
                ),
            )
    return (
        report_good("JetStream", "starts, takes work and ends"),
        report_good("acknowledgement", f"{level.level}: sync_interval always"),
    )
