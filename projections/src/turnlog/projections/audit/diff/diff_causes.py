"""Diff causes: why an entry is in one prompt and not, or not the same, in another.

Each side has provenance events; those that the other call did not know are the causes. If a limit
or a ladder decided, the cause is what took the room. If no event lies between two prompts, the
cause is what differs in their definitions. Only manifests and events are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.manifest import AppliedTrimStep, PartSource, SegmentSource
from turnlog.projections.audit.diff.diff_attribution import (
    CallComparison,
    PairSide,
    find_new_causes,
)
from turnlog.projections.audit.diff.diff_reasons import DiffReason, ReasonEvent, assign_reason
from turnlog.projections.audit.diff.manifest_entries import ManifestEntry
from turnlog.projections.audit.diff.prompt_comparison import EntryPair
from turnlog.projections.audit.diff.retrieval_causes import (
    EntryVotes,
    find_deciding_votes,
    find_knowledge_source,
)
from turnlog.projections.audit.diff.segment_variants import (
    find_version_at,
    find_version_change,
    get_variant_key,
    sort_by_time,
)
from turnlog.projections.audit.explain.call_snapshot import CallSnapshot
from turnlog.projections.audit.explain.count_provenance import (
    find_measuring_event,
    find_refusing_event,
)
from turnlog.projections.audit.explain.exclusion_provenance import (
    find_displacing_event,
    find_kept_cut,
)
from turnlog.projections.audit.explain.part_provenance import EventRef, build_event_ref
from turnlog.projections.audit.explain.provenance_events import (
    find_segment_edit,
    find_turn_retrievals,
)
from turnlog.projections.blueprint.schema.layer_specs import OUTPUT_LAYER
from turnlog.projections.prompt.assembly_inputs import parse_provider
from turnlog.projections.prompt.budget.budget_error import (
    WHOLE_PROMPT,
    BudgetScope,
    find_step_scope,
)
from turnlog.projections.prompt.history.excluded_turns import LIMIT_RULES


@dataclass(frozen=True, slots=True)
class DiffCause:
    """One reason, and the events behind it."""

    what: DiffReason
    by: tuple[EventRef, ...]
    """Empty if the reason is no event: a clock, an installation."""
    votes: tuple[EntryVotes, ...] = ()
    """For `voted`: the votes on each entry that they decide about."""


def find_causes(pair: EntryPair, comparison: CallComparison) -> tuple[DiffCause, ...]:
    """Return why a pair differs."""
    found = [*_find_forced_causes(pair, comparison), *find_new_causes(pair, comparison)]
    grouped = _group_causes(found or _find_definition_causes(pair, comparison))
    voted = tuple(_find_votes(found, pair, comparison))
    return tuple(replace(each, votes=voted) if each.what == "voted" else each for each in grouped)


def _find_votes(
    found: Iterable[ReasonEvent], pair: EntryPair, comparison: CallComparison
) -> Iterator[EntryVotes]:
    """Yield the votes that decide about a retrieved entry, of each retrieval that they explain."""
    source = find_knowledge_source(pair.after, pair.before)
    for what, recorded in found:
        if what == "voted" and source and recorded:
            is_right = recorded in find_turn_retrievals(comparison.right)
            other_call = comparison.left if is_right else comparison.right
            decided = find_deciding_votes(source, recorded, other_call)
            yield from (each for each in decided if each.votes or each.more_votes)


def _find_forced_causes(pair: EntryPair, comparison: CallComparison) -> Iterator[ReasonEvent]:
    """Yield the causes that are a limit, expiry, a ladder step or a segment edit on either side."""
    for face in comparison.split_pair(pair):
        mine = face.own_entry
        if mine is None:
            continue
        rule = mine.part.rule or ""
        if mine.turn is not None and not mine.is_included and rule in LIMIT_RULES:
            yield from _find_limit_causes(mine.turn, rule, face, comparison)
        elif rule == "expired" and face.own_call.state.memory == face.other_call.state.memory:
            yield "time", face.own_call.recorded
        elif mine.step and not (face.other_entry and face.other_entry.step):
            yield from _find_step_causes(mine.step, face, comparison)
        elif face.other_entry and mine.is_included and face.other_entry.is_included:
            yield from _find_segment_causes(mine.part.source, face.other_entry.part.source, face)


def _find_segment_causes(
    own: PartSource | None, other: PartSource | None, pair_side: PairSide
) -> Iterator[ReasonEvent]:
    """Yield why a segment's text differs: an edit, or another variant for another session."""
    if not isinstance(own, SegmentSource) or not isinstance(other, SegmentSource):
        return
    if own.version == other.version:
        return
    drawn = _has_other_variant(own, other, pair_side)
    if drawn:
        yield "variant", pair_side.own_call.log_before_call.events[0]
    if found := find_version_change(own.segment, pair_side.own_call, pair_side.other_call):
        yield "library", found
    elif not drawn and own.version > other.version:
        # By their clocks both calls came after the edit; one of them used an older copy of the
        # library.
        yield from assign_reason("library", find_segment_edit(own, pair_side.own_call))


def _has_other_variant(own: SegmentSource, other: SegmentSource, pair_side: PairSide) -> bool:
    """Return whether two sessions would have been given different variants at the same time."""
    early, late = sort_by_time(pair_side.own_call, pair_side.other_call)
    names = [get_variant_key(each) for each in (early, late)]
    if names[0] == names[1] or not pair_side.own_call.edits:
        return names[0] != names[1] and own.variant != other.variant
    at = early.manifest.at
    versions = [find_version_at(own.segment, name, at, early) for name in names]
    return versions[0] != versions[1]


def _find_limit_causes(
    turn: int, limit: str, pair_side: PairSide, comparison: CallComparison
) -> Iterator[ReasonEvent]:
    """Yield what put a turn over a limit: later turns, a different limit, or both."""
    if _get_definition_pins(pair_side.own_call) == _get_definition_pins(pair_side.other_call):
        by = find_displacing_event(turn, limit, pair_side.own_call)
        # If the other call knew that event, name all later turns that only this side includes.
        over = (
            _find_later_turns(turn, pair_side)
            if by is None or pair_side.other_call.has_seen(by)
            else (by,)
        )
        yield from assign_reason("limit", over)
        return
    later = tuple(_find_later_turns(turn, pair_side))
    behind = sum(
        milestones.is_usable for milestones in pair_side.own_call.turns.iterate_after(turn)
    )
    other_count = comparison.count_turns(pair_side.other_call)
    tighter = behind - len(later) >= comparison.count_turns(pair_side.own_call)
    moved = behind < other_count or not any(
        p.rule == limit for p in pair_side.other_call.manifest.parts
    )
    if not (tighter and moved):
        yield from assign_reason("limit", later)
    if tighter or moved:
        yield from assign_reason(
            "blueprint",
            _select_unshared((pair_side.own_call, pair_side.other_call), _get_definition_events),
        )


def _find_later_turns(turn: int, pair_side: PairSide) -> Iterator[RecordedEvent]:
    """Yield the events by which this side includes later turns that the other does not."""
    for milestones in pair_side.own_call.turns.iterate_after(turn):
        other_milestones = pair_side.other_call.turns.get(milestones.turn)
        if not milestones.is_usable or (other_milestones and other_milestones.is_usable):
            continue
        since = (
            milestones.inclusion_event
            if milestones.inclusion_event
            and not pair_side.other_call.has_seen(milestones.inclusion_event)
            else None
        )
        cause = since or (other_milestones.marked if other_milestones else None)
        yield from (cause,) if cause else ()


def _find_step_causes(
    step: AppliedTrimStep, pair_side: PairSide, comparison: CallComparison
) -> Iterable[ReasonEvent]:
    """Return the earlier call whose cut lasts; else what made the prompt too long on this side."""
    kept = find_kept_cut(step.step, step.on, pair_side.own_call) if step.since else None
    if kept is not None and not pair_side.other_call.has_seen(kept.by):
        return assign_reason("cut", [kept.by])
    return _find_room_causes(find_step_scope(step), pair_side, comparison)


def _find_room_causes(
    bounds: BudgetScope, pair_side: PairSide, comparison: CallComparison
) -> tuple[ReasonEvent, ...]:
    """Return what made a prompt too long on this side only."""
    # Hundreds of turns may be trimmed for the same reason, so the answer is cached.
    cache_key = (comparison.get_side_name(pair_side.own_call), bounds)
    if cache_key not in comparison.room_causes:
        comparison.room_causes[cache_key] = tuple(
            _iterate_room_causes(bounds, pair_side, comparison)
        )
    return comparison.room_causes[cache_key]


def _iterate_room_causes(
    bounds: BudgetScope, pair_side: PairSide, comparison: CallComparison
) -> Iterator[ReasonEvent]:
    tight, loose = pair_side.own_call.manifest.budget, pair_side.other_call.manifest.budget
    less = tight is not None and (loose is None or tight < loose)
    yield from _find_count_causes(pair_side)
    if less and pair_side.own_call.manifest.lowered_by is not None and bounds == WHOLE_PROMPT:
        yield from assign_reason("refused", [find_refusing_event(pair_side.own_call)])
    elif (
        less
        if bounds == WHOLE_PROMPT
        else _collect_integer_inputs(pair_side.own_call)
        != _collect_integer_inputs(pair_side.other_call)
    ):
        yield from _find_budget_causes(pair_side)
    for pair in comparison.pairs:
        part = pair.entry.part
        if bounds.has_layer(part.layer, part.component):
            now, then = comparison.split_pair(pair)
            own_side, other_side = (
                (now, then) if pair_side.own_call is comparison.right else (then, now)
            )
            if _is_longer(own_side.own_entry, other_side.own_entry):
                yield from assign_reason(
                    "room", (by for _, by in find_new_causes(pair, comparison))
                )


def _find_count_causes(pair_side: PairSide) -> Iterator[ReasonEvent]:
    """Yield the event that has the tokens of this side counted as more than those of the other."""
    own, other = (side.manifest.counter for side in (pair_side.own_call, pair_side.other_call))
    if own.factor > other.factor:
        yield from assign_reason("counted", [find_measuring_event(pair_side.own_call)])


def _is_longer(own: ManifestEntry | None, other: ManifestEntry | None) -> bool:
    """Return whether an entry would be longer on one side if nothing had been cut."""
    if own is None or not own.is_wanted:
        return False
    if other is None or not other.is_wanted:
        return True
    return (
        own.uncut_characters is not None
        and other.uncut_characters is not None
        and own.uncut_characters > other.uncut_characters
    )


def _find_budget_causes(pair_side: PairSide) -> Iterator[ReasonEvent]:
    """Yield what sets the budget: the kind of call, the blueprint, or the turn's inputs."""
    sides = (pair_side.own_call, pair_side.other_call)
    if pair_side.own_call.manifest.kind != pair_side.other_call.manifest.kind:
        yield from assign_reason("kind", _select_unshared(sides, _get_phase_events))
    elif _get_definition_pins(pair_side.own_call) != _get_definition_pins(pair_side.other_call):
        yield from assign_reason("budget", _select_unshared(sides, _get_definition_events))
    else:
        yield from assign_reason("budget", _select_unshared(sides, _get_start_events))


def _collect_integer_inputs(side: CallSnapshot) -> dict[str, JsonValue]:
    """Return the integer inputs of a turn; any of them may be a limit."""
    return {name: value for name, value in side.submission.inputs.items() if type(value) is int}


def _find_definition_causes(pair: EntryPair, comparison: CallComparison) -> Iterator[ReasonEvent]:
    """Yield how two calls are defined differently, when no event between them explains a pair."""
    left, right = sides = (comparison.left, comparison.right)
    if left.state.profile != right.state.profile:
        yield from assign_reason("profile", _select_unshared(sides, _get_profile_events))
    elif left.manifest.kind != right.manifest.kind:
        yield from assign_reason("kind", _select_unshared(sides, _get_phase_events))
    elif _get_definition_pins(left) != _get_definition_pins(right):
        yield from assign_reason("blueprint", _select_unshared(sides, _get_definition_events))
    elif parse_provider(left.call.model) != parse_provider(right.call.model) or (
        pair.entry.part.layer == OUTPUT_LAYER and left.call.model != right.call.model
    ):
        yield from assign_reason("model", [each.recorded for each in sides])
    elif left.state.attributes != right.state.attributes:
        yield from assign_reason("attribute", _select_unshared(sides, _get_definition_events))
    elif left.submission.inputs != right.submission.inputs:
        yield from assign_reason("said", _select_unshared(sides, _get_start_events))
    elif isinstance(pair.entry.part.source, SegmentSource):
        yield "library", None
    elif left.manifest.assembler != right.manifest.assembler:
        yield from assign_reason("assembler", [each.recorded for each in sides])
    else:
        yield "unknown", None


def _select_unshared(
    sides: tuple[CallSnapshot, CallSnapshot], of: Callable[[CallSnapshot], Sequence[RecordedEvent]]
) -> list[RecordedEvent]:
    """Return the events that only one call knew, or all of them if there are none."""
    pairs = [
        (each, other) for side, other in zip(sides, sides[::-1], strict=True) for each in of(side)
    ]
    new = [each for each, other in pairs if not other.has_seen(each)]
    return new or [each for each, _ in pairs] or [side.recorded for side in sides]


def _get_definition_events(side: CallSnapshot) -> Sequence[RecordedEvent]:
    return side.definition_events


def _get_profile_events(side: CallSnapshot) -> Sequence[RecordedEvent]:
    return (side.profile_event,)


def _get_phase_events(side: CallSnapshot) -> Sequence[RecordedEvent]:
    return (side.phase_event,) if side.phase_event else ()


def _get_start_events(side: CallSnapshot) -> Sequence[RecordedEvent]:
    return (side.milestones.begun,)


def _get_definition_pins(side: CallSnapshot) -> tuple[object, ...]:
    state = side.state
    return (state.blueprint.digest, state.cartridge, state.memory)


def _group_causes(found: Iterable[ReasonEvent]) -> tuple[DiffCause, ...]:
    """Group events by reason, each event once and in order."""
    by: dict[DiffReason, dict[tuple[str, int, str], RecordedEvent]] = {}
    for what, recorded in found:
        events_by_key = by.setdefault(what, {})
        if recorded:
            # A session may have the same name as a family of the library.
            events_by_key[recorded.session, recorded.sequence, recorded.envelope.type] = recorded
    return tuple(
        DiffCause(what, tuple(build_event_ref(events_by_key[at]) for at in sorted(events_by_key)))
        for what, events_by_key in by.items()
    )
