"""The header `Retry-After` of a receiver: seconds, or a date."""

from __future__ import annotations

from email.utils import parsedate_to_datetime


def parse_retry_after(header: str, now: float) -> float | None:
    """Return the seconds from `now`, a Unix time, that a header names; None if it names none."""
    if header.isdecimal() and header.isascii():
        return float(header)
    try:
        return max(parsedate_to_datetime(header).timestamp() - now, 0.0)
    except (ValueError, TypeError, OverflowError):
        return None
