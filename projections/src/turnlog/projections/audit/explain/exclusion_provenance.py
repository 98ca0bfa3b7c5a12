"""Exclusion provenance: the event that took a turn out of a prompt or replaced its text.

An excluded, redacted, failed or cancelled turn has an event that says so. A turn over a history
limit was pushed out by a later turn, so the event is the one by which that turn came. For expiry
and ladder steps the event is the call itself, and for a cut that lasts the call that made it.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import HistorySource, PromptPart
from turnlog.events.model.memory_events import HistorySummarised, MemoryPurged
from turnlog.projections.audit.explain.call_snapshot import CallSnapshot
from turnlog.projections.audit.explain.provenance_events import find_resolutions
from turnlog.projections.audit.explain.turn_milestones import TurnMilestones
from turnlog.projections.prompt.history.excluded_turns import (
    DROP_TURNS_RULE,
    LIMIT_RULES,
    OUT_OF_REACH,
    PURGED,
    SUMMARISED,
)
from turnlog.projections.prompt.sources.session_material import HIDDEN_PHASE

TURN_RULES: Final = {*LIMIT_RULES, "excluded", "failed", "cancelled", "nothing was said"} - {
    OUT_OF_REACH
}
"""Rules that leave out turns one by one; all others leave out a whole run."""


@dataclass(frozen=True, slots=True)
class TurnExclusion:
    """Consecutive turns of a run that were left out or redacted by the same event."""

    first: int
    last: int
    rule: str
    """`excluded`, `redacted`, `max_turns`, `drop_oldest_pairs` ..."""
    by: RecordedEvent


def find_exclusions(part: PromptPart, side: CallSnapshot) -> tuple[TurnExclusion, ...]:
    """Return why the turns of a run were left out or, if the run is included, their redactions.

    A part that is no run has none.
    """
    found: list[TurnExclusion] = []
    for each in _iterate_exclusions(part, side):
        before = found[-1] if found else None
        if before and (before.last + 1, before.rule, before.by) == (each.first, each.rule, each.by):
            found[-1] = TurnExclusion(before.first, each.last, each.rule, each.by)
        else:
            found.append(each)
    return tuple(found)


def _iterate_exclusions(part: PromptPart, side: CallSnapshot) -> Iterator[TurnExclusion]:
    if not isinstance(part.source, HistorySource):
        return
    rule = part.rule or ""
    if not part.is_included and rule == DROP_TURNS_RULE:
        yield from _iterate_drops(part.source, side)
        return
    if not part.is_included and rule not in TURN_RULES:
        all_by = find_run_exclusion(part.source, rule, side)
        yield TurnExclusion(part.source.first, part.source.last, rule, all_by)
        return
    for turn in range(part.source.first, part.source.last + 1):
        milestones = side.turns.get(turn)
        if milestones is None:
            continue
        if part.is_included:
            for redaction in filter(None, (milestones.text_redacted, milestones.redacted)):
                yield TurnExclusion(turn, turn, "redacted", redaction)
        pushed = find_displacing_event(turn, rule, side) if rule in LIMIT_RULES else None
        if not part.is_included and (
            by := pushed or find_turn_exclusion(milestones, part.source, rule, side)
        ):
            yield TurnExclusion(turn, turn, rule, by)


def _iterate_drops(run: HistorySource, side: CallSnapshot) -> Iterator[TurnExclusion]:
    """Yield the turns that a cut of an earlier call still drops, and those that this call drops."""
    first = run.first
    if kept := find_kept_cut(DROP_TURNS_RULE, run.view, side):
        last = min(run.last, kept.through)
        yield TurnExclusion(first, last, DROP_TURNS_RULE, kept.by)
        first = last + 1
    if first <= run.last:
        yield TurnExclusion(first, run.last, DROP_TURNS_RULE, side.recorded)


@dataclass(frozen=True, slots=True)
class KeptCut:
    """A lasting cut of an earlier call that a call keeps."""

    through: int
    """The last turn from which it left something out."""
    by: RecordedEvent
    """The event of the earlier call."""


def find_kept_cut(step: str, on: str, side: CallSnapshot) -> KeptCut | None:
    """Return the cut that a call keeps of a step; None if it keeps none."""
    kept = (taken for taken in side.manifest.steps if (taken.step, taken.on) == (step, on))
    for taken in kept:
        if taken.since is not None and taken.through is not None:
            by = _find_earlier_call(taken.since, side)
            return KeptCut(taken.through, by) if by else None
    return None


def _find_earlier_call(call: str, side: CallSnapshot) -> RecordedEvent | None:
    number = call.partition(".")[0]
    begun = side.turns.get(int(number)) if number.isdecimal() else None
    events = side.log_before_call.iterate_from(begun.begun.sequence) if begun else ()
    made = (
        each
        for each in events
        if isinstance(each.event, ContextAssembled) and each.event.call == call
    )
    return next(made, None)


def find_run_exclusion(run: HistorySource, rule: str, side: CallSnapshot) -> RecordedEvent:
    """Return the event by which all turns of a run were left out.

    The call's own if there is none.
    """
    match rule:
        case hidden if hidden == HIDDEN_PHASE:
            return side.phase_event or side.recorded
        case purged if purged == PURGED:
            purge_events = (each for each in side.log_before_call.events if _is_purge_of(each, run))
            return next(purge_events, side.recorded)
        case summarised if summarised == SUMMARISED:
            sums = (
                each for each in reversed(side.log_before_call.events) if _is_summary_of(each, run)
            )
            return next(sums, side.recorded)
        case "entity not allowed":
            return next(find_resolutions(side), side.recorded)
        case off if off.endswith(" off"):
            return side.definition_event
        case _:
            return side.recorded


def _is_purge_of(recorded: RecordedEvent, run: HistorySource) -> bool:
    return isinstance(recorded.event, MemoryPurged) and recorded.event.upto >= run.last


def _is_summary_of(recorded: RecordedEvent, run: HistorySource) -> bool:
    event = recorded.event
    return isinstance(event, HistorySummarised) and any(
        each.first <= run.first and run.last <= each.last for each in event.turns
    )


def find_turn_exclusion(
    milestones: TurnMilestones, run: HistorySource, rule: str, side: CallSnapshot
) -> RecordedEvent | None:
    """Return the event by which a rule left a turn out of a call."""
    match rule:
        case "excluded":
            return milestones.marked
        case "failed" | "cancelled":
            return milestones.settled
        case "nothing was said":
            return milestones.redacted or milestones.settled
        case _:
            return find_run_exclusion(run, rule, side)


def find_displacing_event(turn: int, limit: str, side: CallSnapshot) -> RecordedEvent | None:
    """Return the event by which enough later turns were included to push a turn over a limit.

    The search through later turns stops once no further one can have come before that event.
    """
    displacing_count = _count_displacing_turns(turn, limit, side)
    inclusion_events: list[RecordedEvent] = []
    for milestones in side.turns.iterate_after(turn) if displacing_count else ():
        if (
            len(inclusion_events) >= displacing_count
            and inclusion_events[displacing_count - 1].sequence < milestones.begun.sequence
        ):
            break
        if milestones.is_usable and milestones.inclusion_event:
            insort(inclusion_events, milestones.inclusion_event, key=_get_sequence)
    return (
        inclusion_events[displacing_count - 1]
        if 0 < displacing_count <= len(inclusion_events)
        else None
    )


def _count_displacing_turns(turn: int, limit: str, side: CallSnapshot) -> int:
    """Return how many later turns are within the limit and may have been included."""
    over = [
        range(part.source.first, part.source.last + 1)
        for part in side.manifest.parts
        if part.rule == limit and isinstance(part.source, HistorySource)
    ]
    near = _iterate_outside(range(turn + 1, side.call.turn), over)
    return sum(milestones.is_usable for each in near if (milestones := side.turns.get(each)))


def _iterate_outside(turns: range, runs: Sequence[range]) -> Iterator[int]:
    """Yield the turns of a range outside the given runs.

    A run costs one step whatever its length.
    """
    turn = turns.start
    while turn in turns:
        run = next((each for each in runs if turn in each), None)
        if run is None:
            yield turn
        turn = run.stop if run else turn + 1


def _get_sequence(recorded: RecordedEvent) -> int:
    return recorded.sequence
