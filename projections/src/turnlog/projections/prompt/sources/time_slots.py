"""What a layer says of the time of a turn: `{date}`, `{time}` and `{weekday}`, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from pydantic import JsonValue

_WEEKDAYS: Final = (
    *("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
)
"""Not those of the machine's locale, which would change recorded prompts."""


def list_time_values(at: str) -> dict[str, JsonValue]:
    """Return what a time of RFC 3339 says in UTC, by the slots of a layer."""
    time = datetime.fromisoformat(at).astimezone(UTC)
    weekday = _WEEKDAYS[time.weekday()]
    return {"date": time.date().isoformat(), "time": f"{time:%H:%M}", "weekday": weekday}
