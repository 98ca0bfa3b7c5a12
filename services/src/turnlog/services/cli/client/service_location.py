"""Find what a command reads: a running service, or an unserved data directory.

A service writes a ready file into its data directory. The file outlives a killed service, so an
address counts only if something answers there. Only the named data directory is searched.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from turnlog.events.errors import Refused
from turnlog.services.cli.options import ServiceTarget

READY_FILE: Final = "ready.json"

HEALTH_TIMEOUT_SECONDS: Final = 10.0
"""A stopped service refuses the connection at once; this timeout is for a busy one."""


_WAIT_INTERVAL: Final = 0.1
"""Seconds between two looks for a service that is starting."""


@dataclass(frozen=True, slots=True)
class RunningService:
    """A service that answers at an address."""

    url: str


@dataclass(frozen=True, slots=True)
class UnservedDirectory:
    """A data directory that no service has open."""

    path: Path


DataLocation = RunningService | UnservedDirectory


def locate_data(url: str | None, data_dir: Path) -> DataLocation:
    """Find what to read; raises `Refused` if there is neither a service nor a data directory."""
    running = find_service(url, data_dir)
    if running is not None:
        return running
    if not data_dir.is_dir():
        raise Refused(
            "unknown-data-dir",
            f"no service runs, and there is no data directory {data_dir}",
            field="--data-dir",
            fix="start one with `turnlog up`, or name the place with --data-dir or --url",
        )
    return UnservedDirectory(data_dir)


def find_service(url: str | None, data_dir: Path) -> RunningService | None:
    """Return the service of a URL, answering or not, or the one that a data directory has."""
    if url is not None:
        return RunningService(url.rstrip("/"))
    address = read_ready_address(data_dir)
    return RunningService(address) if address is not None and is_answering(address) else None


def wait_for_service(target: ServiceTarget, seconds: float) -> RunningService:
    """Wait until a service accepts work; raises `Refused` if none does in time.

    The ready file alone says little: one that was killed has left its own.
    """
    deadline = time.monotonic() + seconds
    while True:
        running = find_service(target.url, target.data_dir)
        if running is not None and _is_successful(f"{running.url}/readyz"):
            return running
        if time.monotonic() > deadline:
            detail = f"no service accepted work within {seconds:g} s"
            fix = "see what `turnlog up` wrote, or wait longer with --seconds"
            raise Refused("no-service", detail, fix=fix)
        time.sleep(_WAIT_INTERVAL)


def require_service(target: ServiceTarget) -> RunningService:
    """Find the running service; raises `Refused` if there is none."""
    place = locate_data(target.url, target.data_dir)
    if isinstance(place, RunningService):
        return place
    raise Refused(
        "no-service",
        f"no service runs on {place.path}, and this command needs one",
        fix="start it with `turnlog up`, or give its address with --url",
    )


def read_ready_address(data_dir: Path) -> str | None:
    """Return the HTTP address in the ready file, or None if there is no valid one."""
    try:
        ready = json.loads((data_dir / READY_FILE).read_bytes())
        return str(ready["http"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def is_answering(url: str) -> bool:
    """Return whether a service answers at this address."""
    return _is_successful(f"{url}/healthz")


def _is_successful(url: str) -> bool:
    try:
        return httpx.get(url, timeout=HEALTH_TIMEOUT_SECONDS).is_success
    except httpx.HTTPError:
        return False
