from __future__ import annotations

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the delay in seconds that a provider asks for, or None.

    The header holds seconds or an HTTP date; some providers send milliseconds under another name.
    Header names are in lower case, `now` is Unix time, and the result is never negative.
    """
    milliseconds = _parse_number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    said = headers.get("retry-after", "")
    seconds = _parse_number(said)
    return _compute_seconds_until(said, now) if seconds is None else seconds


def _parse_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return max(value, 0.0) if math.isfinite(value) else None


def _compute_seconds_until(date: str, now: float) -> float | None:
    try:
        return max(parsedate_to_datetime(date).timestamp() - now, 0.0)
    except (ValueError, TypeError, OverflowError):
        return None
