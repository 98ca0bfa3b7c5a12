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
    return _require_kind(_find_inner(event, kind), kind)


def _find_inner(event: object, kind: type) -> object:
    if kind is AttemptEnded:
        return find_attempt_end(event)
    return find_call_answer(event) if kind is CallCompleted else event


def _require_kind(found: object, kind: type[PartT]) -> PartT | None:
    return found if isinstance(found, kind) else None
