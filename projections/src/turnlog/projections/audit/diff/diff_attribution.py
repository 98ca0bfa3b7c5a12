"""Diff attribution: the events that one call knew about a prompt part and the other did not.

The events behind a text follow from its source: a turn's milestones, the snapshot that pinned a
file, the event that set a blueprint value, the summary that stands in for older turns. An event
that both calls knew explains no difference; one that only one of them knew does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.manifest import (
    BlobSource,
    BlueprintTextSource,
    EventTextSource,
    HistorySource,
    ParentInputSource,
    PromptPart,
    ResolutionSource,
    SegmentSource,
)
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.projections.audit.diff.diff_reasons import ReasonEvent, assign_reason, classify_events
from turnlog.projections.audit.diff.history_causes import (
    find_condensing_events,
    find_summary_end,
    find_summary_events,
    is_summary_entry,
)
from turnlog.projections.audit.diff.manifest_entries import ManifestEntry
from turnlog.projections.audit.diff.prompt_comparison import EntryPair
from turnlog.projections.audit.diff.retrieval_causes import (
    find_knowledge_source,
    iterate_retrieval_causes,
)
from turnlog.projections.audit.diff.segment_variants import find_version_change
from turnlog.projections.audit.explain.call_snapshot import CallSnapshot
from turnlog.projections.audit.explain.exclusion_provenance import (
    find_run_exclusion,
    find_turn_exclusion,
)
from turnlog.projections.audit.explain.provenance_events import (
    find_attribute_event,
    find_condition_events,
    find_disclosure_event,
    find_latest_answer,
    find_pinned_tools,
    find_pinning_event,
    find_resolutions,
    find_tools_pinning,
    find_value_events,
    get_path_value,
    is_disclosure_rule,
    is_left_out_as_run,
    is_tool_text,
)
from turnlog.projections.audit.explain.turn_milestones import TurnMilestones
from turnlog.projections.blueprint.schema.layer_specs import ROUNDS_LAYERS
from turnlog.projections.prompt.budget.budget_error import BudgetScope
from turnlog.projections.prompt.history.excluded_turns import LIMIT_RULES
from turnlog.projections.prompt.sources.layer_sources import EMPTY_RULE
from turnlog.projections.prompt.sources.segment_layers import TIER_RULE
from turnlog.projections.session.text_refs import TextRef
from turnlog.projections.session.tool_disclosure import ADAPT_RULE


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
        yield from classify_events(
            find_summary_events(pair_side.own_entry, pair_side.other_entry, pair_side.own_call)
        )
    elif known[0].part.role == "tools" or (
        pair_side.other_entry and pair_side.other_entry.part.role == "tools"
    ):
        yield from _iterate_tool_causes(pair_side)
    elif known[0].part.layer in ROUNDS_LAYERS or known[0].part.is_reply_reasoning:
        yield from classify_events(_find_round_events(pair_side))
    elif any(isinstance(each.part.source, SegmentSource) for each in known):
        yield from _iterate_segment_causes(pair_side)
    elif source := find_knowledge_source(*known):
        yield from iterate_retrieval_causes(source, pair_side.own_call, pair_side.other_call)
    elif pair_side.own_entry and pair_side.other_entry:
        yield from _iterate_layer_causes(pair_side.own_entry, pair_side.other_entry, pair_side)


def _find_round_events(pair_side: PairSide) -> Iterator[RecordedEvent]:
    """Yield the answer, tool call or tool result that a part of a tool round is.

    What was reasoned before an earlier reply is in the event of that reply.
    """
    source = pair_side.own_entry.part.source if pair_side.own_entry else None
    if isinstance(source, EventTextSource):
        found = pair_side.own_call.log_before_call.find_event(source.sequence)
        yield from (found,) if found else ()


def _iterate_turn_causes(turn: int, pair_side: PairSide) -> Iterator[ReasonEvent]:
    mine = pair_side.own_entry
    run = mine.part.source if mine else None
    if mine is None or not isinstance(run, HistorySource):
        return
    if is_left_out_as_run(mine.part):
        yield from classify_events(_find_run_events(run, mine.part.rule or "", pair_side.own_call))
        return
    milestones = pair_side.own_call.turns.get(turn)
    if milestones is None or milestones.status is None:
        return
    if mine.is_included:
        yield from _iterate_included_causes(milestones, pair_side)
        if pair_side.other_entry and pair_side.other_entry.is_included:
            yield from classify_events(
                find_condensing_events(mine.part, pair_side.other_entry.part, pair_side.own_call)
            )
    elif is_trimmed(mine):
        # The turn counted towards the limit, even if none of it was included.
        yield from classify_events(
            (milestones.inclusion_event,)
            if milestones.inclusion_event and pair_side.other_entry is None
            else ()
        )
    else:
        out = find_turn_exclusion(milestones, run, mine.part.rule or "", pair_side.own_call)
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


def _iterate_included_causes(
    milestones: TurnMilestones, pair_side: PairSide
) -> Iterator[ReasonEvent]:
    other_milestones, other = (
        pair_side.other_call.turns.get(milestones.turn),
        pair_side.other_entry,
    )
    if other is not None and other.is_included and other_milestones:
        yield from _iterate_text_changes(milestones, other_milestones)
    elif other is not None and not is_trimmed(other):
        yield from classify_events((milestones.marked,) if milestones.marked else ())
        yield from classify_events(
            find_summary_end(other, pair_side.other_call, pair_side.own_call)
        )
        yield from _iterate_redaction_causes(milestones, other_milestones)
    elif other is None:
        yield from classify_events(
            (milestones.inclusion_event,) if milestones.inclusion_event else ()
        )
        yield from _iterate_redaction_causes(milestones, other_milestones)


def _iterate_redaction_causes(
    milestones: TurnMilestones, other_milestones: TurnMilestones | None
) -> Iterator[ReasonEvent]:
    if milestones.text_redacted and not (other_milestones and other_milestones.text_redacted):
        yield "redacted", milestones.text_redacted
    if milestones.redacted and not (other_milestones and other_milestones.redacted):
        yield "redacted", milestones.redacted


def _iterate_text_changes(
    milestones: TurnMilestones, other_milestones: TurnMilestones
) -> Iterator[ReasonEvent]:
    """Yield why two turns of the same number differ: a redaction, or different turns."""
    if _get_digest(milestones.text) != _get_digest(other_milestones.text):
        if milestones.text_redacted:
            yield "redacted", milestones.text_redacted
        elif other_milestones.text_redacted is None:
            yield "said", milestones.begun
    if _get_digest(milestones.reply) == _get_digest(other_milestones.reply):
        return
    if milestones.redacted:
        yield "redacted", milestones.redacted
    elif other_milestones.redacted is None and milestones.settled:
        yield from classify_events((milestones.settled,))


def _get_digest(ref: TextRef | None) -> str | None:
    return ref.digest if ref else None


def _iterate_tool_causes(pair_side: PairSide) -> Iterator[ReasonEvent]:
    """Yield why a tool is offered: its list, the step of a turn, or the phase and its exchanges."""
    entry = pair_side.own_entry or pair_side.other_entry
    if entry and isinstance(entry.part.source, BlobSource):
        lists = [find_pinned_tools(each) for each in (pair_side.own_call, pair_side.other_call)]
        if lists[0] and lists[1] and lists[0].tools != lists[1].tools:
            yield from classify_events(find_tools_pinning(pair_side.own_call))
        else:
            yield from classify_events(find_latest_answer(pair_side.own_call))
        return
    known, entered = pair_side.own_call.log_before_call, pair_side.own_call.phase_event
    if entered is None:
        return
    yield "phase", entered
    other_log = pair_side.other_call.log_before_call
    shared = other_log.end if other_log.session == known.session else 0
    for recorded in known.iterate_from(max(entered.sequence, shared) + 1):
        match recorded.event:
            case TurnCompleted(turn=turn) | ReplyRedacted(turn=turn):
                milestones = pair_side.own_call.turns.get(turn)
                if milestones and milestones.settled == recorded:
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
        yield from classify_events(side.milestones.opening_events)
    elif any((rule or "").startswith("when ") for rule in rules):
        yield from classify_events(find_condition_events(mine.part, side))


def _iterate_selection_causes(
    segment: SegmentSource, entry: ManifestEntry | None, pair_side: PairSide
) -> Iterator[ReasonEvent]:
    """Yield why a segment is given to one call only: the selection differs, or the library does."""
    sides = (pair_side.own_call, pair_side.other_call)
    refs = {entry.part.item if entry else None, segment.ref} - {None}
    in_inputs = [any(has_reference(each.submission.inputs, ref) for ref in refs) for each in sides]
    pinned = [any(has_reference(each.state.attributes, ref) for ref in refs) for each in sides]
    if in_inputs[0] != in_inputs[1]:
        yield from classify_events(pair_side.own_call.milestones.opening_events)
    elif pinned[0] != pinned[1]:
        yield "attribute", pair_side.own_call.definition_event
    elif found := find_version_change(segment.segment, pair_side.own_call, pair_side.other_call):
        yield "library", found
    elif pair_side.own_call.state.attributes != pair_side.other_call.state.attributes:
        yield "attribute", pair_side.own_call.definition_event
    elif pair_side.own_call.submission.inputs != pair_side.other_call.submission.inputs:
        yield from classify_events(pair_side.own_call.milestones.opening_events)


def has_reference(value: JsonValue, ref: str | None) -> bool:
    """Return whether a value contains a reference, at any depth."""
    match value:
        case dict():
            return any(has_reference(each, ref) for each in value.values())
        case list():
            return any(has_reference(each, ref) for each in value)
        case _:
            return value == ref


def _iterate_layer_causes(
    own: ManifestEntry, other: ManifestEntry, pair_side: PairSide
) -> Iterator[ReasonEvent]:
    side = pair_side.own_call
    out = [each for each in (own, other) if not each.is_included]
    condition = next((each for each in out if _is_conditional(each.part.rule)), None)
    if condition is not None:
        yield from classify_events(find_condition_events(_copy_with_rule(own, condition), side))
    elif out and is_disclosure_rule(own.part.rule) and is_disclosure_rule(other.part.rule):
        yield from classify_events(find_disclosure_event(side))
    elif own.texts != other.texts and not (out and out[0].step):
        yield from _iterate_source_causes(own, other, pair_side)


def _is_conditional(rule: str | None) -> bool:
    """Return whether a part is left out by a condition, or because a case is adapted."""
    return (rule or "").partition(" ")[0] in {"when", ADAPT_RULE}


def _copy_with_rule(own: ManifestEntry, condition: ManifestEntry) -> PromptPart:
    """Return a part with the condition of the other entry."""
    return own.part.model_copy(update={"rule": condition.part.rule})


def _iterate_source_causes(
    own: ManifestEntry, other: ManifestEntry, pair_side: PairSide
) -> Iterator[ReasonEvent]:
    side = pair_side.own_call
    source = own.part.source or other.part.source
    match source:
        case _ if _is_users_own(own) or _is_users_own(other):
            if side.submission.overrides != pair_side.other_call.submission.overrides:
                yield "override", side.milestones.begun
        case EventTextSource(field=field) if field.startswith("attributes."):
            name = field.removeprefix("attributes.")
            yield from assign_reason("attribute", find_attribute_event(name, side))
        case EventTextSource(sequence=at) if (
            own.part.source and at != side.milestones.begun.sequence
        ):
            yield from classify_events(
                (*filter(None, [side.log_before_call.find_event(at)]), *find_latest_answer(side))
            )
        case EventTextSource() | ParentInputSource():
            yield from classify_events(side.milestones.opening_events)
        case ResolutionSource():
            yield from classify_events(find_resolutions(side))
        case BlobSource(digest=digest) if is_tool_text(digest, side):
            yield from classify_events(find_tools_pinning(side))
        case BlobSource():
            yield from classify_events(find_pinning_event(side))
        case BlueprintTextSource(of=of):
            yield from _iterate_value_causes(of, pair_side)
        case _:
            if {own.part.rule, other.part.rule} - {EMPTY_RULE, None}:
                yield from classify_events(side.milestones.opening_events)


def _is_users_own(entry: ManifestEntry) -> bool:
    """Return whether a user's own text replaces a prompt file."""
    source = entry.part.source
    return isinstance(source, BlobSource) and source.user is not None


def _iterate_value_causes(of: Sequence[str], pair_side: PairSide) -> Iterator[ReasonEvent]:
    differ = [
        path
        for path in of
        if get_path_value(path, pair_side.own_call) != get_path_value(path, pair_side.other_call)
    ]
    for path in differ:
        attribute = path.startswith("attributes.")
        for reason, recorded in classify_events(find_value_events(path, pair_side.own_call)):
            yield ("attribute" if attribute else reason), recorded
    if not differ:
        yield from assign_reason("blueprint", pair_side.own_call.definition_events)
