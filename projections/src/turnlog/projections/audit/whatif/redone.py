from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from turnlog.events.content import Digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.manifest import CounterRef, Manifest
from turnlog.events.session import BlueprintMoved, SessionOpened
from turnlog.projections.audit.retelling import RecordedCallInputs, SessionReplay
from turnlog.projections.audit.whatif.change import WhatIfChange, HypotheticalCall, ChangeApplier
from turnlog.projections.audit.whatif.standing import PromptAlteration, compare_manifests
from turnlog.projections.blueprint.schema import compute_history_reach
from turnlog.projections.session.evolve import fold_unbounded
from turnlog.projections.window.assemble import assemble, can_include_older_turns
from turnlog.projections.window.call import AssembledPrompt
from turnlog.projections.window.pinned import InstalledExtensions


@dataclass(frozen=True, slots=True)
class PromptSize:
    """The size of a prompt, and what it was counted and limited by."""

    kind: str
    """The blueprint's name for this kind of call."""
    model: str
    tokens: int
    counter: CounterRef
    budget: int | None
    prefix: int | None
    """Tokens in common with the call of its kind before; None for the first of its kind."""
    digest: Digest
    """Digest of the request."""


@dataclass(frozen=True, slots=True)
class ReassembledCall:
    """A recorded call, and what it would have been."""

    call: str
    turn: int
    sequence: int
    """Sequence of the event that fixed its prompt."""
    before: PromptSize
    after: PromptSize | None
    """None if it could not have been made."""
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
    retelling, supposing = SessionReplay(texts, installed, without_texts=True), ChangeApplier(change, texts)
    for recorded in events:
        told = _set_reach(recorded, change)
        if made := retelling.rebuild_inputs(told):
            redone, assembled = _rebuild_call(retelling, supposing, made)
            told = _replace_event(made, assembled) if assembled else told
            yield redone
        retelling.apply_event(told)


def _rebuild_call(
    replay: SessionReplay, applier: ChangeApplier, inputs: RecordedCallInputs
) -> tuple[ReassembledCall, AssembledPrompt | None]:
    call = inputs.call
    before = _measure_prompt(call.model, call.manifest)
    named = (call.call, call.turn, inputs.recorded.sequence, before)
    try:
        assembled = _assemble_prompt(replay, applier.apply_change(inputs))
    except Refused as refused:
        return ReassembledCall(*named, None, refused=refused), None
    except Corrupt as error:
        raise Corrupt(f"call {call.call}", str(error)) from error
    after = _measure_prompt(assembled.request.model, assembled.manifest)
    changes = compare_manifests(call.manifest, assembled.manifest)
    return ReassembledCall(*named, after, changes), assembled


def _assemble_prompt(replay: SessionReplay, call: HypotheticalCall) -> AssembledPrompt:
    material, state, asked = call.material, call.state, call.call_request
    further = can_include_older_turns(material, state, asked)
    if further and (whole := fold_unbounded(replay.events)):
        state = replace(state, turns=whole.turns, earlier=whole.earlier, reach=whole.reach)
    return assemble(material, state, asked, replay.collect_texts(state, asked))


def _measure_prompt(model: str, manifest: Manifest) -> PromptSize:
    return PromptSize(
        kind=manifest.kind,
        model=model,
        tokens=manifest.tokens,
        counter=manifest.counter,
        budget=manifest.budget,
        prefix=manifest.prefix.tokens if manifest.prefix else None,
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
