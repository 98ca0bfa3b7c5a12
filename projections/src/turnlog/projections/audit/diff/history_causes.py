"""History causes: what ended or made a summary, and what condensed a turn in one prompt only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.manifest import EventTextSource, HistorySource, PromptPart
from turnlog.events.model.memory_events import MemoryPurged, SummaryUndone
from turnlog.projections.audit.diff.manifest_entries import ManifestEntry
from turnlog.projections.audit.explain.call_snapshot import CallSnapshot
from turnlog.projections.audit.explain.exclusion_provenance import find_run_exclusion
from turnlog.projections.blueprint.schema.layer_specs import HISTORY_COMPONENT
from turnlog.projections.prompt.assembly_inputs import has_verbatim_last_exchange
from turnlog.projections.prompt.history.excluded_turns import SUMMARISED
from turnlog.projections.prompt.history.repeated_questions import REPEATS_RULES


def is_summary_entry(entry: ManifestEntry) -> bool:
    """Return whether an entry is a summary of older turns."""
    return entry.turn is None and entry.part.layer == HISTORY_COMPONENT


def find_summary_events(
    own: ManifestEntry | None, other: ManifestEntry | None, side: CallSnapshot
) -> Iterator[RecordedEvent]:
    """Yield the event that made an included summary, and what ended the other call's summary."""
    if own and own.is_included and isinstance(own.part.source, EventTextSource):
        made = side.log_before_call.find_event(own.part.source.sequence)
        yield from (made,) if made else ()
    if other and other.is_included and isinstance(other.part.source, EventTextSource):
        yield from _iterate_summary_ends(other.part.source.sequence, side)


def find_summary_end(
    other: ManifestEntry, other_side: CallSnapshot, side: CallSnapshot
) -> Iterator[RecordedEvent]:
    """Yield what ended the summary that replaced a turn in the other call."""
    run = other.part.source
    if isinstance(run, HistorySource) and other.part.rule == SUMMARISED:
        yield from _iterate_summary_ends(
            find_run_exclusion(run, SUMMARISED, other_side).sequence, side
        )


def _iterate_summary_ends(summary: int, side: CallSnapshot) -> Iterator[RecordedEvent]:
    for recorded in side.log_before_call.events:
        match recorded.event:
            case SummaryUndone(sequence=sequence) if sequence == summary:
                yield recorded
            case MemoryPurged() if recorded.sequence > summary:
                yield recorded
            case _:
                pass


def find_condensing_events(
    own: PromptPart, other: PromptPart, side: CallSnapshot
) -> Iterator[RecordedEvent]:
    """Yield the events of other turns that condensed a run, or that ended its condensing.

    A view condenses a turn because of later turns: those that ask the same, or say the same. If one
    of them is excluded or changed, the turn is included word for word again. The results of a turn
    are listed in a layer until a later turn is answered.
    """
    found = [
        milestones for turn in _list_condensing_turns(own) if (milestones := side.turns.get(turn))
    ]
    yield from (milestones.inclusion_event for milestones in found if milestones.inclusion_event)
    if isinstance(own.source, HistorySource) and own.source.condensed in REPEATS_RULES:
        yield from _find_later_answers(own.source.last, side)
    found = [
        milestones for turn in _list_condensing_turns(other) if (milestones := side.turns.get(turn))
    ]
    for milestones in found:
        yield from filter(None, (milestones.marked, milestones.text_redacted, milestones.redacted))
    if isinstance(other.source, HistorySource) and other.source.condensed == "results-1":
        yield from _find_next_answer(other.source.last, side)


def _find_later_answers(turn: int, side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the events by which later turns were answered: the latest ones stay verbatim."""
    if has_verbatim_last_exchange(side.manifest.assembler):
        for milestones in side.turns.iterate_after(turn):
            is_shown = milestones.status == "completed" or milestones.is_kept
            if milestones.settled and is_shown:
                yield milestones.settled


def _find_next_answer(turn: int, side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the event by which the next turn was answered; a turn of the system never is."""
    for milestones in side.turns.iterate_after(turn):
        if milestones.settled and milestones.status == "completed" and milestones.role == "user":
            yield milestones.settled
            return


def _list_condensing_turns(part: PromptPart) -> Iterable[int]:
    """Return the turns by which a run is condensed; empty if it is included word for word."""
    match part.source:
        case HistorySource(
            condensed="repeats-1" | "repeats-2" | "results-1", first=first, last=last
        ):
            return range(first, last + 1)
        case HistorySource(condensed="duplicates-1", later=int() as later):
            return (later,)
        case _:
            return ()
