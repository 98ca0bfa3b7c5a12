"""Recorded calls, assembled again under a change, and how each prompt would have been altered.

The result is exact for context and not for behaviour: the recorded replies are used for all later
calls. Each call follows the reassembled call before it, so that the prefix a provider's cache could
reuse is correct. Nothing is written and no model is called. Alterations are found by comparing two
manifests of the same turn; no text is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from turnlog.events.content import Digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.model.manifest import (
    BlobSource,
    BlueprintTextSource,
    CounterRef,
    HistorySource,
    KnowledgeSource,
    Manifest,
    ParentInputSource,
    PromptPart,
    SegmentSource,
)
from turnlog.events.model.session_events import BlueprintMoved, SessionOpened
from turnlog.projections.audit.diff.manifest_entries import EntryKey, build_part_key
from turnlog.projections.audit.record.session_replay import RecordedCallInputs, SessionReplay
from turnlog.projections.audit.what_if.hypothetical_change import (
    ChangeApplier,
    HypotheticalCall,
    WhatIfChange,
)
from turnlog.projections.blueprint.schema.blueprint_model import compute_history_reach
from turnlog.projections.prompt.assemble import assemble, find_missing_turns, plan_prompt
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt
from turnlog.projections.prompt.manifest_reports import sum_component_tokens
from turnlog.projections.prompt.sources.session_material import InstalledExtensions
from turnlog.projections.session.evolve import fold_unbounded

AlterationKind = Literal["cut", "uncut", "gone", "added", "changed"]
"""How a prompt item is altered.

`cut` is shortened or left out to fit, more than before; `uncut` is the reverse; `gone` and `added`
have another reason than size; `changed` has another text.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptAlteration:
    """One item of a prompt that is altered."""

    layer: str
    """The layer."""
    how: AlterationKind
    """The kind of difference."""
    rule: str | None
    """The step or condition that caused it, or for `uncut` that caused the cut before."""
    first: int | None
    """The first turn of a range of history."""
    last: int | None
    """The last turn of the range."""
    segment: int | None
    """The number of a segment."""


def compare_manifests(before: Manifest, after: Manifest) -> tuple[PromptAlteration, ...]:
    """Compare the manifests of two prompts for the same call."""
    return (*_compare_layers(before, after), *_compare_turns(before, after))


def _compare_layers(before: Manifest, after: Manifest) -> Iterator[PromptAlteration]:
    was, now = _index_parts(before), _index_parts(after)
    for key, part in {**was, **now}.items():
        if found := _compare_part(was.get(key), now.get(key)):
            how, rule = found
            segment = part.source.segment if isinstance(part.source, SegmentSource) else None
            yield PromptAlteration(
                layer=part.layer, how=how, rule=rule, first=None, last=None, segment=segment
            )


def _index_parts(manifest: Manifest) -> Mapping[EntryKey, PromptPart]:
    """Return all parts except history by key and occurrence."""
    seen: Counter[EntryKey] = Counter()
    keyed: dict[EntryKey, PromptPart] = {}
    for part in manifest.parts:
        if not isinstance(part.source, HistorySource):
            key = build_part_key(part)
            keyed[*key, str(seen[key])] = part
            seen[key] += 1
    return keyed


def _compare_part(
    was: PromptPart | None, now: PromptPart | None
) -> tuple[AlterationKind, str | None] | None:
    if was and was.is_included and now and now.is_included:
        return _compare_kept(was, now)
    if was and was.is_included:
        dropped = now is not None and now.treatment == "dropped"
        return ("cut" if dropped else "gone", now.rule if now else None)
    if now and now.is_included:
        dropped = was is not None and was.treatment == "dropped"
        return ("uncut" if dropped else "added", was.rule if was and dropped else now.rule)
    return None


def _compare_kept(was: PromptPart, now: PromptPart) -> tuple[AlterationKind, str | None] | None:
    left, right = _get_cut_size(was), _get_cut_size(now)
    if right is not None and (left is None or right < left):
        return "cut", now.rule
    if left is not None and (right is None or right > left):
        return "uncut", was.rule
    return None if _identify_part_text(was) == _identify_part_text(now) else ("changed", None)


def _get_cut_size(part: PromptPart) -> int | None:
    """Return the remaining length of a part that was cut; None if it was not."""
    return part.cut.to if part.cut else None


def _identify_part_text(part: PromptPart) -> Digest | str | None:
    match part.source:
        case (
            BlobSource(digest=digest)
            | SegmentSource(digest=digest)
            | KnowledgeSource(digest=digest)
            | ParentInputSource(digest=digest)
        ):
            return digest
        case BlueprintTextSource(text=text):
            return text
        case _:
            return part.digest


def _compare_turns(before: Manifest, after: Manifest) -> Iterator[PromptAlteration]:
    was, now = _collect_kept_turns(before.parts), _collect_kept_turns(after.parts)
    yield from _group_runs("cut", was - now, _map_left_out_turns(after.parts))
    yield from _group_runs("uncut", now - was, _map_left_out_turns(before.parts))


def _collect_kept_turns(parts: Iterable[PromptPart]) -> set[int]:
    return {turn for part in parts if part.is_included for turn in _list_turns(part)}


def _map_left_out_turns(parts: Iterable[PromptPart]) -> Mapping[int, str | None]:
    return {turn: part.rule for part in parts if not part.is_included for turn in _list_turns(part)}


def _list_turns(part: PromptPart) -> range:
    source = part.source
    return range(source.first, source.last + 1) if isinstance(source, HistorySource) else range(0)


def _group_runs(
    how: Literal["cut", "uncut"], turns: Iterable[int], rules: Mapping[int, str | None]
) -> Iterator[PromptAlteration]:
    """Yield alterations of consecutive turns under one rule.

    A turn that no view of the prompt mentions is `gone` or `added`.
    """
    numbered = enumerate(sorted(turns))
    for (_, rule), run in groupby(numbered, key=lambda at: (at[1] - at[0], rules.get(at[1]))):
        numbers = [turn for _, turn in run]
        unmentioned: AlterationKind = "gone" if how == "cut" else "added"
        kind = how if rule else unmentioned
        yield PromptAlteration(
            layer="history", how=kind, rule=rule, first=numbers[0], last=numbers[-1], segment=None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSize:
    """The size of a prompt, and what it was counted and limited by."""

    kind: str
    """The blueprint's name for this kind of call."""
    model: str
    """The model."""
    tokens: int
    """The tokens, as counted by `counter`."""
    counter: CounterRef
    """The token counter."""
    budget: int | None
    """The token budget."""
    prefix: int | None
    """Tokens that equal the beginning of the previous call; None for the first of its kind."""
    components: Mapping[str, int]
    """The tokens by component."""
    cut_by: tuple[str, ...]
    """The steps of the ladder that made it fit."""
    digest: Digest
    """The digest of the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassembledCall:
    """A recorded call, and what it would have been."""

    call: str
    turn: int
    sequence: int
    """Sequence of the event that fixed its prompt."""
    before: PromptSize
    after: PromptSize | None
    """None if the call could not have been assembled."""
    altered: tuple[PromptAlteration, ...] = ()
    refused: Refused | None = None
    """Why it could not have been made; `OverBudget` if its prompt cannot be made to fit."""


def rebuild_calls(
    events: Iterable[RecordedEvent],
    blobs: Mapping[Digest, str],
    installed: InstalledExtensions,
    change: WhatIfChange,
) -> Iterator[ReassembledCall]:
    """Assemble the calls of one session again under a change.

    The events are given in stored order from the first. Raises `Corrupt` if the record lacks
    something that a call used.
    """
    texts = dict(blobs)
    replay, applier = (
        SessionReplay(blobs=texts, installed=installed, without_texts=True),
        ChangeApplier(change=change, blobs=texts),
    )
    for recorded in events:
        replayed = _set_reach(recorded, change)
        if made := replay.rebuild_inputs(replayed):
            reassembled, assembled = _rebuild_call(replay, applier, made)
            replayed = _replace_event(made, assembled) if assembled else replayed
            yield reassembled
        replay.apply_event(replayed)


def _rebuild_call(
    replay: SessionReplay, applier: ChangeApplier, inputs: RecordedCallInputs
) -> tuple[ReassembledCall, AssembledPrompt | None]:
    call = inputs.call
    before = measure_prompt(call.model, call.manifest)
    unchanged = ReassembledCall(
        call=call.call,
        turn=call.turn,
        sequence=inputs.recorded.sequence,
        before=before,
        after=None,
    )
    try:
        assembled = _assemble_prompt(replay, applier.apply_change(inputs))
    except Refused as refused:
        return replace(unchanged, refused=refused), None
    except Corrupt as error:
        raise Corrupt(f"call {call.call}", str(error)) from error
    after = measure_prompt(assembled.request.model, assembled.manifest)
    changes = compare_manifests(call.manifest, assembled.manifest)
    return replace(unchanged, after=after, altered=changes), assembled


def _assemble_prompt(replay: SessionReplay, call: HypotheticalCall) -> AssembledPrompt:
    material, state, call_request = call.material, call.state, call.call_request
    is_missing = find_missing_turns(material, state, call_request) is not None
    if is_missing and (full_state := fold_unbounded(replay.events)):
        state = replace(
            state, turns=full_state.turns, earlier=full_state.earlier, reach=full_state.reach
        )
    unfilled = plan_prompt(material, state, call_request)
    return assemble(unfilled, replay.collect_texts(state, call_request))


def measure_prompt(model: str, manifest: Manifest) -> PromptSize:
    """Return the size of the prompt that a manifest is of, sent to a model."""
    return PromptSize(
        kind=manifest.kind,
        model=model,
        tokens=manifest.tokens,
        counter=manifest.counter,
        budget=manifest.budget,
        prefix=manifest.prefix.tokens if manifest.prefix else None,
        components=sum_component_tokens(manifest.parts),
        cut_by=tuple(dict.fromkeys(step.step for step in manifest.steps)),
        digest=manifest.digest,
    )


def _replace_event(inputs: RecordedCallInputs, assembled: AssembledPrompt) -> RecordedEvent:
    request = assembled.request
    changed = {
        "model": request.model,
        "parameters": request.parameters,
        "manifest": assembled.manifest,
    }
    return replace(inputs.recorded, event=inputs.call.model_copy(update=changed))


def _set_reach(recorded: RecordedEvent, change: WhatIfChange) -> RecordedEvent:
    """Return the event with a reach that keeps every turn the change may need."""
    if not isinstance(recorded.event, SessionOpened | BlueprintMoved):
        return recorded
    both = (recorded.event.reach, _compute_reach(change, recorded.event.reach))
    wider = max(both) if all(both) else 0
    return replace(recorded, event=recorded.event.model_copy(update={"reach": wider}))


def _compute_reach(change: WhatIfChange, recorded: int) -> int:
    if change.budget is not None:
        return 0
    if change.blueprint is None:
        return recorded
    everything = any(view.all for view in change.blueprint.history.values())
    return 0 if everything else compute_history_reach(change.blueprint)
