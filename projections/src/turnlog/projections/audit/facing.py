from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from turnlog.events.envelope import RecordedEvent
from turnlog.events.manifest import (
    BlobSource,
    BlueprintTextSource,
    EventTextSource,
    ResolutionSource,
    SegmentSource,
    HistorySource,
    PromptPart,
)
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.turn import TurnCompleted
from turnlog.projections.audit.comparing import EntryPair
from turnlog.projections.audit.drawing import find_version_change
from turnlog.projections.audit.entries import ManifestEntry
from turnlog.projections.audit.fates import TurnTimeline
from turnlog.projections.audit.grounds import (
    find_attribute_event,
    find_value_events,
    is_left_out_as_run,
    find_condition_events,
    find_latest_answer,
    find_pinning_event,
    find_resolutions,
    get_path_value,
)
from turnlog.projections.audit.reasons import ReasonEvent, assign_reason, classify_events
from turnlog.projections.audit.recaps import find_summary_events, is_summary_entry, find_summary_end
from turnlog.projections.audit.shortening import find_condensing_events
from turnlog.projections.audit.sides import CallSnapshot
from turnlog.projections.audit.tellings import find_disclosure_event, is_disclosure_rule
from turnlog.projections.audit.tombstones import LIMIT_RULES, find_turn_exclusion, find_run_exclusion
from turnlog.projections.session.state import TextRef
from turnlog.projections.window.layers import EMPTY_RULE
from turnlog.projections.window.overflow import BudgetScope
from turnlog.projections.window.segments import TIER_RULE


@dataclass(frozen=True, slots=True)
class PairSide:
    """One side of a pair, with its call and the other side."""

    own_entry: ManifestEntry | None
    other_entry: ManifestEntry | None
    own_call: CallSnapshot
    other_call: CallSnapshot


@dataclass(frozen=True, slots=True)
class CallComparison:
    """Two calls, with all pairs of their entries."""

    left: CallSnapshot
    right: CallSnapshot
    pairs: Sequence[EntryPair]
    room_causes: dict[tuple[str, BudgetScope], tuple[ReasonEvent, ...]] = field(
        default_factory=dict[tuple[str, BudgetScope], tuple[ReasonEvent, ...]]
    )
    """Cache: what took the room, by `left` or `right` and the bounds of the limit."""

    def split_pair(self, pair: EntryPair) -> tuple[PairSide, PairSide]:
        """Return both sides of a pair, the later one first."""
        now = PairSide(pair.after, pair.before, self.right, self.left)
        return now, PairSide(pair.before, pair.after, self.left, self.right)

    def get_side_name(self, side: CallSnapshot) -> str:
        """Return `left` or `right`."""
        return "right" if side is self.right else "left"

    def count_turns(self, side: CallSnapshot) -> int:
        """Return how many turns a call had within the limits of its history."""
        entries = (pair.after if side is self.right else pair.before for pair in self.pairs)
        return sum(bool(e and e.turn is not None and (e.is_included or e.step)) for e in entries)


def find_new_causes(pair: EntryPair, comparison: CallComparison) -> list[ReasonEvent]:
    """Return the events of either side that the other call did not know, with their reasons."""
    return [
        (what, by)
        for face in comparison.split_pair(pair)
        for what, by in _iterate_causes(face)
        if by and not face.other_call.has_seen(by)
    ]


def _iterate_causes(pair_side: PairSide) -> Iterator[ReasonEvent]:
    known = [each for each in (pair_side.own_entry, pair_side.other_entry) if each]
    if known[0].turn is not None:
        yield from _iterate_turn_causes(known[0].turn, pair_side)
    elif is_summary_entry(known[0]):
        yield from classify_events(find_summary_events(pair_side.own_entry, pair_side.other_entry, pair_side.own_call))
    elif known[0].part.role == "tools" or (pair_side.other_entry and pair_side.other_entry.part.role == "tools"):
        yield from _iterate_tool_causes(pair_side)
    elif any(isinstance(each.part.source, SegmentSource) for each in known):
        yield from _iterate_segment_causes(pair_side)
    elif pair_side.own_entry and pair_side.other_entry:
        yield from _iterate_layer_causes(pair_side.own_entry, pair_side.other_entry, pair_side)


def _iterate_turn_causes(turn: int, pair_side: PairSide) -> Iterator[ReasonEvent]:
    mine = pair_side.own_entry
    run = mine.part.source if mine else None
    if mine is None or not isinstance(run, HistorySource):
        return
    if is_left_out_as_run(mine.part):
        yield from classify_events(_find_run_events(run, mine.part.rule or "", pair_side.own_call))
        return
    fate = pair_side.own_call.timelines.get(turn)
    if fate is None or fate.status is None:
        return
    if mine.is_included:
        yield from _iterate_included_causes(fate, pair_side)
        if pair_side.other_entry and pair_side.other_entry.is_included:
            yield from classify_events(find_condensing_events(mine.part, pair_side.other_entry.part, pair_side.own_call))
    elif is_trimmed(mine):
        # The turn counted towards the limit, even if none of it was included.
        yield from classify_events((fate.inclusion_event,) if fate.inclusion_event and pair_side.other_entry is None else ())
    else:
        out = find_turn_exclusion(fate, run, mine.part.rule or "", pair_side.own_call)
        yield from classify_events((out,) if out else ())


def _find_run_events(run: HistorySource, rule: str, side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield what left out a whole run, unless a limit did."""
    if rule not in LIMIT_RULES:
        yield find_run_exclusion(run, rule, side)


def is_trimmed(entry: ManifestEntry | None) -> bool:
    """Return whether a limit, expiry or a ladder step left an entry out."""
    if entry is None or entry.is_included:
        return False
    return entry.step is not None or entry.part.rule in {*LIMIT_RULES, "expired"}


def _iterate_included_causes(timeline: TurnTimeline, pair_side: PairSide) -> Iterator[ReasonEvent]:
    theirs, other = pair_side.other_call.timelines.get(timeline.turn), pair_side.other_entry
    if other is not None and other.is_included and theirs:
        yield from _iterate_text_changes(timeline, theirs)
    elif other is not None and not is_trimmed(other):
        yield from classify_events((timeline.marked,) if timeline.marked else ())
        yield from classify_events(find_summary_end(other, pair_side.other_call, pair_side.own_call))
        yield from _iterate_redaction_causes(timeline, theirs)
    elif other is None:
        yield from classify_events((timeline.inclusion_event,) if timeline.inclusion_event else ())
        yield from _iterate_redaction_causes(timeline, theirs)


def _iterate_redaction_causes(timeline: TurnTimeline, other_timeline: TurnTimeline | None) -> Iterator[ReasonEvent]:
    if timeline.redacted and (other_timeline is None or other_timeline.redacted is None):
        yield "redacted", timeline.redacted


def _iterate_text_changes(timeline: TurnTimeline, other_timeline: TurnTimeline) -> Iterator[ReasonEvent]:
    """Yield why two turns of the same number differ: a redaction, or different turns."""
    if _get_digest(timeline.text) != _get_digest(other_timeline.text):
        yield "said", timeline.begun
    if _get_digest(timeline.reply) == _get_digest(other_timeline.reply):
        return
    if timeline.redacted:
        yield "redacted", timeline.redacted
    elif other_timeline.redacted is None and timeline.settled:
        yield "answered", timeline.settled


def _get_digest(said: TextRef | None) -> str | None:
    return said.digest if said else None


def _iterate_tool_causes(pair_side: PairSide) -> Iterator[ReasonEvent]:
    """Yield why a tool is offered: the step of a turn, or the phase and its completed exchanges."""
    entry = pair_side.own_entry or pair_side.other_entry
    if entry and isinstance(entry.part.source, BlobSource):
        yield from classify_events(find_latest_answer(pair_side.own_call))
        return
    known, entered = pair_side.own_call.log_before_call, pair_side.own_call.phase_event
    if entered is None:
        return
    yield "phase", entered
    theirs = pair_side.other_call.log_before_call
    shared = theirs.end if theirs.session == known.session else 0
    for recorded in known.iterate_from(max(entered.sequence, shared) + 1):
        match recorded.event:
            case TurnCompleted(turn=turn) | ReplyRedacted(turn=turn):
                fate = pair_side.own_call.timelines.get(turn)
                if fate and fate.settled == recorded:
                    yield "answered", recorded
            case _:
                pass


def _iterate_segment_causes(pair_side: PairSide) -> Iterator[ReasonEvent]:
    mine, other, side = pair_side.own_entry, pair_side.other_entry, pair_side.own_call
    segments = [
        each.part.source
        for each in (mine, other)
        if each and isinstance(each.part.source, SegmentSource)
    ]
    if mine is None or other is None:
        yield from _iterate_selection_causes(segments[0], (mine or other), pair_side)
        return
    rules = {each.part.rule for each in (mine, other) if not each.is_included}
    if TIER_RULE in rules and segments[0].tier == segments[-1].tier:
        yield from classify_events(side.timeline.opening_events)
    elif any((rule or "").startswith("when ") for rule in rules):
        yield from classify_events(find_condition_events(mine.part, side))


def _iterate_selection_causes(segment: SegmentSource, entry: ManifestEntry | None, pair_side: PairSide) -> Iterator[ReasonEvent]:
    """Yield why a segment is given to one call only: the selection differs, or the library does."""
    sides = (pair_side.own_call, pair_side.other_call)
    refs = {entry.part.item if entry else None, segment.ref} - {None}
    asked = [any(has_reference(each.submission.inputs, ref) for ref in refs) for each in sides]
    pinned = [any(has_reference(each.state.attributes, ref) for ref in refs) for each in sides]
    if asked[0] != asked[1]:
        yield from classify_events(pair_side.own_call.timeline.opening_events)
    elif pinned[0] != pinned[1]:
        yield "attribute", pair_side.own_call.definition_event
    elif found := find_version_change(segment.segment, pair_side.own_call, pair_side.other_call):
        yield "library", found
    elif pair_side.own_call.state.attributes != pair_side.other_call.state.attributes:
        yield "attribute", pair_side.own_call.definition_event
    elif pair_side.own_call.submission.inputs != pair_side.other_call.submission.inputs:
        yield from classify_events(pair_side.own_call.timeline.opening_events)


def has_reference(given: JsonValue, ref: str | None) -> bool:
    """Return whether a value contains a reference, at any depth."""
    match given:
        case dict():
            return any(has_reference(each, ref) for each in given.values())
        case list():
            return any(has_reference(each, ref) for each in given)
        case _:
            return given == ref


def _iterate_layer_causes(own: ManifestEntry, other: ManifestEntry, pair_side: PairSide) -> Iterator[ReasonEvent]:
    side = pair_side.own_call
    out = [each for each in (own, other) if not each.is_included]
    if any((each.part.rule or "").startswith("when ") for each in out):
        condition = next(each for each in out if (each.part.rule or "").startswith("when "))
        yield from classify_events(find_condition_events(_copy_with_rule(own, condition), side))
    elif out and is_disclosure_rule(own.part.rule) and is_disclosure_rule(other.part.rule):
        yield from classify_events(find_disclosure_event(side))
    elif own.texts != other.texts and not (out and out[0].step):
        yield from _iterate_source_causes(own, other, pair_side)


def _copy_with_rule(own: ManifestEntry, condition: ManifestEntry) -> PromptPart:
    """Return a part with the condition of the other entry."""
    return own.part.model_copy(update={"rule": condition.part.rule})


def _iterate_source_causes(own: ManifestEntry, other: ManifestEntry, pair_side: PairSide) -> Iterator[ReasonEvent]:
    side = pair_side.own_call
    source = own.part.source or other.part.source
    match source:
        case EventTextSource(field=field) if field.startswith("attributes."):
            name = field.removeprefix("attributes.")
            yield from assign_reason("attribute", find_attribute_event(name, side))
        case EventTextSource(sequence=at) if own.part.source and at != side.timeline.begun.sequence:
            yield from classify_events((*filter(None, [side.log_before_call.find_event(at)]), *find_latest_answer(side)))
        case EventTextSource():
            yield from classify_events(side.timeline.opening_events)
        case ResolutionSource():
            yield from classify_events(find_resolutions(side))
        case BlobSource():
            yield from classify_events(find_pinning_event(side))
        case BlueprintTextSource(of=of):
            yield from _iterate_value_causes(of, pair_side)
        case _:
            if {own.part.rule, other.part.rule} - {EMPTY_RULE, None}:
                yield from classify_events(side.timeline.opening_events)


def _iterate_value_causes(of: Sequence[str], pair_side: PairSide) -> Iterator[ReasonEvent]:
    differ = [path for path in of if get_path_value(path, pair_side.own_call) != get_path_value(path, pair_side.other_call)]
    for path in differ:
        attribute = path.startswith("attributes.")
        for reason, recorded in classify_events(find_value_events(path, pair_side.own_call)):
            yield ("attribute" if attribute else reason), recorded
    if not differ:
        yield from assign_reason("blueprint", pair_side.own_call.definition_events)
