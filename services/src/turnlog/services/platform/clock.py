"""The clock and the ids of a process, which pure code gets as arguments."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from uuid_utils.compat import uuid7

Clock = Callable[[], datetime]
"""Return the current time, aware and in UTC."""

CreateId = Callable[[], str]
"""Return a new id."""


def read_clock() -> datetime:
    """Return the machine's current time in UTC."""
    return datetime.now(UTC)


def create_id() -> str:
    """Return a new UUIDv7, which sorts by time."""
    return str(uuid7())
