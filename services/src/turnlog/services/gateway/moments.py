from __future__ import annotations

from datetime import UTC, datetime

from turnlog.events.errors import Refused


def convert_to_utc(moment: datetime, field: str) -> datetime:
    """Return a time in UTC; raises `Refused` when it is outside the calendar there."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        detail = "the calendar has no such moment in UTC"
        raise Refused("invalid", detail, field=field, fix="name another moment") from None
