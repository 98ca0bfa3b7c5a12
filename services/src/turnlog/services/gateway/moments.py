"""Moments that clients name: aware of their zone, and brought to UTC before anything is asked."""

from __future__ import annotations

from datetime import UTC, datetime

from turnlog.events.errors import Refused


def in_utc(moment: datetime, field: str) -> datetime:
    """Give a moment in UTC; refuses one that the calendar does not have there."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        detail = "the calendar has no such moment in UTC"
        raise Refused("invalid", detail, field=field, fix="name another moment") from None
