"""Processor time of a process with everything that it started, as Linux counts it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")

CALIBRATION_SIZE: Final = 60_000
"""Additions of the calibration task."""


def read_processor_seconds(pid: int) -> float:
    """Sum user and system time of a process and of its living descendants."""
    children = _list_children()
    pids = [pid]
    for each in pids:
        pids += children.get(each, [])
    return sum(_read_times(each) for each in pids)


def measure_calibration() -> float:
    """Return the milliseconds of a fixed task in pure Python: the speed of the machine just now."""
    began = time.process_time()
    total = 0
    for number in range(CALIBRATION_SIZE):
        total += number
    assert total
    return (time.process_time() - began) * 1000


def _list_children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _read_fields(int(folder.name))):
            found.setdefault(int(fields[1]), []).append(int(folder.name))
    return found


def _read_times(pid: int) -> float:
    """Read user and system time; 0 for a process that has ended."""
    fields = _read_fields(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def _read_fields(pid: int) -> list[str]:
    """Read the fields of `/proc/PID/stat` after the command's name; empty when it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return stat.rpartition(")")[2].split()
