"""Events of a kind on a log, whether they are events of their own or parts of larger ones."""

from __future__ import annotations

from typing import TypeVar

from turnlog.events.model.call_events import (
    AttemptEnded,
    CallCompleted,
    find_attempt_end,
    find_call_answer,
)

PartT = TypeVar("PartT")


def find_part(event: object, kind: type[PartT]) -> PartT | None:
    """Return an event if it is of a kind, or the end or answer of that kind within it."""
    found = event
    if kind is AttemptEnded:
        found = find_attempt_end(event)
    elif kind is CallCompleted:
        found = find_call_answer(event)
    return found if isinstance(found, kind) else None
