"""Time and ids, the two things nothing pure may make for itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from uuid_utils.compat import uuid7

Clock = Callable[[], datetime]
"""Gives the time, aware, in UTC."""
Ids = Callable[[], str]
"""Gives a new id each time."""


def now() -> datetime:
    """Read the machine's clock."""
    return datetime.now(UTC)


def new_id() -> str:
    """Make a UUID that sorts by time."""
    return str(uuid7())
