"""The events behind a prompt's token counts: the call that measured a factor, and the refused one.

A manifest names both calls. The event is the end of an attempt at the call: its provider reported
the tokens there, or refused the prompt as too long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import AttemptEnded, find_attempt_end
from turnlog.projections.audit.explain.call_snapshot import CallSnapshot
from turnlog.projections.audit.explain.part_provenance import EventRef, build_event_ref
from turnlog.projections.session.token_counts import OVERFLOW_CODE


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedFactor:
    """That the provider's counts correct those of the blueprint's counter."""

    factor: float
    """What each count is multiplied by."""
    call: str
    """The earlier call that measured it."""
    by: EventRef | None
    """The event in which its provider named the tokens; None if the record lacks it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedRefusal:
    """That a prompt was shortened since the provider refused one as too long."""

    call: str
    """The call whose prompt was refused."""
    tokens: int | None
    """The tokens that the provider counted; None if it named none."""
    limit: int | None
    """Most tokens that the model takes; None if the provider named none."""
    by: EventRef | None
    """The event of the refusal; None if the record lacks it."""


def explain_factor(side: CallSnapshot) -> ExplainedFactor | None:
    """Return how the counts of a call were corrected; None if they were not."""
    counter = side.manifest.counter
    if counter.measured_in is None:
        return None
    found = find_measuring_event(side)
    by = build_event_ref(found) if found else None
    return ExplainedFactor(factor=counter.factor, call=counter.measured_in, by=by)


def explain_refusal(side: CallSnapshot) -> ExplainedRefusal | None:
    """Return why the budget of a call was lowered; None if it is the blueprint's."""
    call = side.manifest.lowered_by
    if call is None:
        return None
    found = find_refusing_event(side)
    ended = find_attempt_end(found.event) if found else None
    overflow = ended.fault.overflow if ended and ended.fault else None
    return ExplainedRefusal(
        call=call,
        tokens=overflow.tokens if overflow else None,
        limit=overflow.limit if overflow else None,
        by=build_event_ref(found) if found else None,
    )


def find_measuring_event(side: CallSnapshot) -> RecordedEvent | None:
    """Return the event that measured the factor of a call; None if it has none."""
    return _find_end(side, side.manifest.counter.measured_in, _has_named_tokens)


def find_refusing_event(side: CallSnapshot) -> RecordedEvent | None:
    """Return the event by which the budget of a call was lowered; None if it was not."""
    return _find_end(side, side.manifest.lowered_by, _is_overflow)


def _find_end(
    side: CallSnapshot, call: str | None, matches: Callable[[AttemptEnded], bool]
) -> RecordedEvent | None:
    """Return the last event before the prompt that ends an attempt at an earlier call so."""
    number = (call or "").partition(".")[0]
    begun = side.turns.get(int(number)) if number.isdecimal() else None
    found: RecordedEvent | None = None
    for recorded in side.log_before_call.iterate_from(begun.begun.sequence) if begun else ():
        ended = find_attempt_end(recorded.event)
        if ended is None or ended.turn < int(number):
            continue
        if ended.turn > int(number):
            break
        if ended.call == call and matches(ended):
            found = recorded
    return found


def _has_named_tokens(ended: AttemptEnded) -> bool:
    return ended.usage.known == "reported" or _is_overflow(ended)


def _is_overflow(ended: AttemptEnded) -> bool:
    return ended.fault is not None and ended.fault.code == OVERFLOW_CODE
