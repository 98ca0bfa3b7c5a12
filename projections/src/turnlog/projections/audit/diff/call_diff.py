"""The difference between two calls of one or two sessions: what changed, by which rule, and why.

It is computed from manifests and events alone and contains no prompt text. The calls may be given
in any order; the difference always leads from the first to the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pydantic import ConfigDict, JsonValue, with_config

from turnlog.events.content import Digest
from turnlog.events.model.call_events import AttemptEnded, find_attempt_end
from turnlog.events.model.manifest import CounterRef, PromptPart
from turnlog.events.model.turn_events import is_end_of_turn
from turnlog.projections.audit.diff.diff_attribution import CallComparison
from turnlog.projections.audit.diff.diff_causes import DiffCause, find_causes
from turnlog.projections.audit.diff.diff_reasons import DiffReason
from turnlog.projections.audit.diff.manifest_entries import ManifestEntry, index_entries
from turnlog.projections.audit.diff.prompt_comparison import (
    ChangeKind,
    CommonPrefix,
    EntryPair,
    find_common_prefix,
    find_differences,
    match_entries,
)
from turnlog.projections.audit.explain.call_snapshot import CallSnapshot
from turnlog.projections.audit.explain.part_provenance import EventRef, build_event_ref
from turnlog.projections.prompt.manifest_reports import sum_component_tokens
from turnlog.projections.session_views.cost_totals import sum_call_cost


def collect_attempt_ends(side: CallSnapshot) -> Mapping[int, AttemptEnded]:
    """Return the latest end of each attempt at a call, by attempt number.

    After the call's turn is settled, only lost attempts are waited for: their worker may still
    report.
    """
    found: dict[int, AttemptEnded] = {}
    over = False
    for recorded in side.log.iterate_from(side.milestones.begun.sequence):
        end = find_attempt_end(recorded.event)
        if end is not None and end.call == side.call.call:
            found[end.attempt] = end
        over = over or is_end_of_turn(recorded.event, side.call.turn)
        if over and all(ended.outcome != "lost" for ended in found.values()):
            break
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """One of the two calls."""

    session: str
    call: str
    turn: int
    kind: str
    model: str
    parameters: dict[str, JsonValue]
    at: str
    """The time it was assembled with, RFC 3339."""
    fixed: EventRef
    """The event that fixed its prompt."""
    digest: Digest
    """Digest of the canonical request."""
    tokens: int
    """Tokens of the prompt, by its counter."""
    budget: int | None
    counter: CounterRef
    micro_dollars: int | None
    """Cost of all its attempts in millionths of a dollar; None if that of one is unknown."""
    guessed: bool
    """Whether a price in it is a guess, because no table has that very model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptChange:
    """One difference, or one difference of several consecutive turns."""

    what: ChangeKind
    layer: str
    component: str
    item: str | None
    first: int | None
    """The first turn of a history run that changed; None for other parts."""
    last: int | None
    before: PromptPart | None
    """The part in the first call; None if its manifest does not name it, and for turns."""
    after: PromptPart | None
    """The part in the second call; None if its manifest does not name it, and for turns."""
    tokens: int | None
    """Difference in tokens; None for turns, which are counted with their run."""
    characters: int
    """Difference in characters."""
    rule: str | None
    """The condition, limit or step that decided."""
    because: tuple[DiffCause, ...]


@dataclass(frozen=True, slots=True)
class ComponentShare:
    """Tokens of a component in either prompt."""

    component: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class PrefixAgreement:
    """What the two prompts have in common at their beginning, and what ends it."""

    messages: int
    tokens: int
    ended_by: str | None
    """The first layer that differs; None if the second prompt contains all of the first."""
    change: int | None
    """Index of that change in `changes`, from 0."""


@with_config(ConfigDict(defer_build=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class CallDiff:
    """Everything that differs between two calls."""

    before: CallFacts
    after: CallFacts
    same: bool
    """Whether both sent the same request."""
    tokens: int
    """Difference in tokens, each call by its own counter."""
    micro_dollars: int | None
    """Difference in millionths of a dollar; None if either cost is unknown."""
    guessed: bool
    """Whether either cost is a guess."""
    components: tuple[ComponentShare, ...]
    changes: tuple[PromptChange, ...]
    """In the order of the second prompt."""
    prefix: PrefixAgreement


def compare_calls(left: CallSnapshot, right: CallSnapshot) -> CallDiff:
    """Compare two calls."""
    was, now = index_entries(left, right), index_entries(right, left)
    compared = CallComparison(left, right, match_entries(was, now))
    each = [
        (pair, _build_change(what, pair, compared)) for what, pair in find_differences(was, now)
    ]
    changes = join_turn_changes(change for _, change in each)
    before, after = _build_call_facts(left), _build_call_facts(right)
    return CallDiff(
        before=before,
        after=after,
        same=before.digest == after.digest,
        tokens=after.tokens - before.tokens,
        micro_dollars=_compute_difference(after.micro_dollars, before.micro_dollars),
        guessed=before.guessed or after.guessed,
        components=_compare_components(left, right),
        changes=changes,
        prefix=_describe_prefix(find_common_prefix(was, now), changes),
    )


def _build_call_facts(side: CallSnapshot) -> CallFacts:
    call, manifest = side.call, side.manifest
    cost = sum_call_cost(ended.cost for ended in collect_attempt_ends(side).values())
    return CallFacts(
        session=side.recorded.session,
        call=call.call,
        turn=call.turn,
        kind=manifest.kind,
        model=call.model,
        parameters=call.parameters,
        at=manifest.at,
        fixed=build_event_ref(side.recorded),
        digest=manifest.digest,
        tokens=manifest.tokens,
        budget=manifest.budget,
        counter=manifest.counter,
        micro_dollars=None if cost.unpriced_calls else cost.micro_dollars,
        guessed=cost.guessed,
    )


def _compute_difference(minuend: int | None, subtrahend: int | None) -> int | None:
    return None if minuend is None or subtrahend is None else minuend - subtrahend


def _compare_components(left: CallSnapshot, right: CallSnapshot) -> tuple[ComponentShare, ...]:
    was, now = (sum_component_tokens(each.manifest.parts) for each in (left, right))
    return tuple(
        ComponentShare(name, was.get(name, 0), now.get(name, 0)) for name in {**was, **now}
    )


def _build_change(what: ChangeKind, pair: EntryPair, comparison: CallComparison) -> PromptChange:
    was, now, entry = pair.before, pair.after, pair.included_entry
    part, run = entry.part, entry.turn is not None
    return PromptChange(
        what=what,
        layer=part.layer,
        component=part.component,
        item=part.item,
        first=entry.turn,
        last=entry.turn,
        before=was.part if was and not run else None,
        after=now.part if now and not run else None,
        tokens=None if run else _count_tokens(now) - _count_tokens(was),
        characters=(now.characters if now else 0) - (was.characters if was else 0),
        rule=_find_rule(pair),
        because=find_causes(pair, comparison),
    )


def _count_tokens(entry: ManifestEntry | None) -> int:
    return entry.part.tokens if entry else 0


def _find_rule(pair: EntryPair) -> str | None:
    """Return the rule of the side that left the entry out or shortened it, or else any rule."""
    sides = [each for each in (pair.after, pair.before) if each]
    out = [each.part.rule for each in sides if not each.is_included]
    cut = [each.part.rule for each in sides if each.step]
    return next((rule for rule in (*out, *cut, *(e.part.rule for e in sides)) if rule), None)


def join_turn_changes(changes: Iterable[PromptChange]) -> tuple[PromptChange, ...]:
    """Join consecutive turns that changed in the same way and for the same reasons."""
    found: list[PromptChange] = []
    for change in changes:
        before = found[-1] if found else None
        if before and _can_join(before, change):
            found[-1] = replace(
                before,
                last=change.last,
                characters=before.characters + change.characters,
                because=_merge_causes((*before.because, *change.because)),
            )
        else:
            found.append(change)
    return tuple(found)


def _can_join(before: PromptChange, change: PromptChange) -> bool:
    if before.last is None or change.first != before.last + 1:
        return False
    reasons = [{each.what for each in one.because} for one in (before, change)]
    return (before.what, before.rule, reasons[0]) == (change.what, change.rule, reasons[1])


def _merge_causes(reasons: Iterable[DiffCause]) -> tuple[DiffCause, ...]:
    by: dict[DiffReason, dict[EventRef, None]] = {}
    for each in reasons:
        by.setdefault(each.what, {}).update(dict.fromkeys(each.by))
    return tuple(DiffCause(what, tuple(events)) for what, events in by.items())


def _describe_prefix(found: CommonPrefix, changes: tuple[PromptChange, ...]) -> PrefixAgreement:
    if found.first_difference is None:
        return PrefixAgreement(found.messages, found.tokens, None, None)
    ends = [each for each in (found.first_difference, found.counterpart) if each]
    numbered = list(enumerate(changes))
    hits = (place for end in ends for place, change in numbered if _is_change_of(change, end))
    return PrefixAgreement(
        found.messages, found.tokens, found.first_difference.part.layer, next(hits, None)
    )


def _is_change_of(change: PromptChange, entry: ManifestEntry) -> bool:
    if change.layer != entry.part.layer:
        return False
    if entry.turn is None or change.first is None or change.last is None:
        return entry.part in (change.before, change.after)
    return change.first <= entry.turn <= change.last
