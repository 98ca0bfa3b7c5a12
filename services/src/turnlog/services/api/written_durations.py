"""Durations as people write them: a number and `s`, `m`, `h` or `d`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_UNITS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}

_DURATION: Final = re.compile(r"([0-9]{1,7})([dhms])")


def parse_seconds(written: str) -> int | None:
    """Return a written duration in seconds; None if it is none."""
    found = _DURATION.fullmatch(written)
    return int(found[1]) * _UNITS[found[2]] if found else None


def format_seconds(duration: timedelta) -> str:
    """Return a duration as it is written, in the largest unit that divides it."""
    seconds = int(duration.total_seconds())
    for unit, size in _UNITS.items():
        if seconds % size == 0 and seconds:
            return f"{seconds // size}{unit}"
    return "0s"
