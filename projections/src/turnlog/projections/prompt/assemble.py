"""Assemble the prompt of a call and its manifest from session state and blueprint.

Both functions are pure: `find_prompt_needs` lists what must be fetched, the caller fetches it, and
`assemble` builds the prompt. The same record must always give the same bytes. A change that breaks
this raises `ASSEMBLER_VERSION`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, assert_never

from turnlog.events.model.manifest import CachePrefix, Manifest, PromptPart
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.budget_specs import (
    BudgetSpec,
    CharacterCounterSpec,
    resolve_limit,
)
from turnlog.projections.blueprint.schema.call_specs import (
    DEFAULT_MESSAGE_FORMAT,
    HistoryMessageSlot,
    MessageSlot,
    SystemMessageSlot,
    UserMessageSlot,
)
from turnlog.projections.blueprint.schema.layer_specs import (
    CarryLayer,
    PinnedLayer,
    PromptsLayer,
    ResultsLayer,
    StepLayer,
    ToolsLayer,
)
from turnlog.projections.blueprint.schema.prompt_overrides import find_pinned_file
from turnlog.projections.blueprint.token_counters import TokenCounter, build_token_counter
from turnlog.projections.library.segment_selection import SegmentRequest
from turnlog.projections.prompt.assembly_inputs import (
    ASSEMBLER_VERSION,
    AssembledPrompt,
    PromptCall,
    PromptNeeds,
    PromptTexts,
)
from turnlog.projections.prompt.budget.trim_ladder import BudgetContext, fit_plan
from turnlog.projections.prompt.cache_prefix import compute_common_prefix
from turnlog.projections.prompt.chat_request import ChatRequest
from turnlog.projections.prompt.history.history_window import (
    build_history_window,
    list_history_windows,
    render_history,
)
from turnlog.projections.prompt.prompt_plan import PlannedHistory, PlannedMessage, PlannedSlot
from turnlog.projections.prompt.render import render_plan
from turnlog.projections.prompt.session_material import SessionMaterial
from turnlog.projections.prompt.sources.layer_content import include_layers
from turnlog.projections.prompt.sources.layer_sources import LayerSources, resolve_layer
from turnlog.projections.prompt.sources.prior_results import find_prior_results, list_step_refs
from turnlog.projections.prompt.sources.segment_layers import (
    build_omissions,
    collect_segment_requests,
)
from turnlog.projections.prompt.sources.tool_sources import (
    list_offered_tools,
    list_pinned_tools,
    list_tool_texts,
)
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.text_refs import TextRef

_DEFAULT_COUNTER_SPEC: Final = CharacterCounterSpec(chars_per_token=4)
"""The counter of calls without a budget."""


def list_segment_requests(
    material: SessionMaterial, state: SessionState, call: PromptCall
) -> list[SegmentRequest]:
    """Return the library segments that a call requests."""
    return collect_segment_requests(
        material, material.blueprint.calls[call.kind].layers, state, call
    )


def find_prompt_needs(
    material: SessionMaterial, state: SessionState, call: PromptCall
) -> PromptNeeds:
    """Return what must be fetched before a call can be assembled."""
    said = [
        said
        for back in list_history_windows(material, state, call)
        for said in back.list_refs(state)
    ]
    return PromptNeeds(
        blobs=_list_blobs(material, state, call),
        text_refs=(*said, *_list_open_turn_refs(state), *_list_step_refs(material, state, call)),
        needs_older_turns=can_include_older_turns(material, state, call),
        earlier_sequence=state.called.get(call.kind),
    )


def can_include_older_turns(
    material: SessionMaterial, state: SessionState, call: PromptCall
) -> bool:
    """Return whether a call could include turns that the state keeps only as runs."""
    budget = _find_budget(material.blueprint, call)
    tokens = resolve_limit(budget.tokens, call.inputs) if budget else 0
    return any(
        back.has_reachable_runs(state, budget, tokens)
        for back in list_history_windows(material, state, call)
    )


def _list_open_turn_refs(state: SessionState) -> tuple[TextRef, ...]:
    if state.open is None:
        return ()
    found = state.open.resolved.results if state.open.resolved else None
    return tuple(said for said in (state.open.text, found) if said)


def _find_budget(blueprint: Blueprint, call: PromptCall) -> BudgetSpec | None:
    name = blueprint.calls[call.kind].budget
    return blueprint.budget[name] if name else None


def _list_step_refs(
    material: SessionMaterial, state: SessionState, call: PromptCall
) -> Iterator[TextRef]:
    """Yield the text references of the current step and of the turn's tool results."""
    blueprint = material.blueprint
    listed = (blueprint.layers.get(name) for name in blueprint.calls[call.kind].layers)
    for layer in listed:
        if isinstance(layer, StepLayer):
            yield from list_step_refs(layer, material, state)
        elif isinstance(layer, ResultsLayer):
            yield from (given.summary for given in find_prior_results(material, state).results)
        elif isinstance(layer, CarryLayer) and state.carried:
            yield state.carried


def _list_blobs(
    material: SessionMaterial, state: SessionState, call: PromptCall
) -> tuple[str, ...]:
    files, blueprint = state.prompts.get(call.provider, {}), material.blueprint
    listed = blueprint.calls[call.kind].layers
    pinned = (find_pinned_file(files, name, state.profile) for name in listed)
    layers = ((name, blueprint.layers.get(name)) for name in listed)
    told = (
        source.digest
        for _, layer in layers
        if isinstance(layer, ToolsLayer | PromptsLayer)
        for source in list_tool_texts(layer, material, state)
    )
    offered = (pin.digest for _, pin in list_pinned_tools(material, state, call.kind))
    return (*(file.digest for file in pinned if file), *told, *offered)


def assemble(
    material: SessionMaterial, state: SessionState, call: PromptCall, texts: PromptTexts
) -> AssembledPrompt:
    """Assemble the prompt of a call.

    Raises `Refused` if it cannot fit its budget, and `Corrupt` if a text was not fetched.
    """
    spec = material.blueprint.calls[call.kind]
    budget = _find_budget(material.blueprint, call)
    spoken = budget.counter if budget else _DEFAULT_COUNTER_SPEC
    counting = build_token_counter(spoken, material.vocabularies, call.model)
    sources = LayerSources(material, state, call, texts)
    plan = tuple(_build_slot(sources, slot, counting) for slot in spec.messages)
    tools = list_offered_tools(material, state, call.kind, texts.blobs)
    offers = tuple(tool.build_part(counting) for tool in tools)
    beside = _sum_tokens(offers)
    fitting = (
        BudgetContext(budget, counting, call.inputs, beside, material.registered_steps)
        if budget
        else None
    )
    plan, steps = fit_plan(plan, fitting) if fitting else (plan, ())
    messages, said = render_plan(plan, counting)
    parts = (*said, *offers)
    offered = tuple(each.tool for each in tools)
    request = ChatRequest(call.model, messages, offered, dict(spec.parameters))
    manifest = Manifest(
        kind=call.kind,
        at=call.at,
        sequence=state.head.sequence,
        assembler=ASSEMBLER_VERSION,
        counter=counting.counter,
        budget=fitting.limit if fitting else None,
        tokens=_sum_tokens(parts),
        parts=parts,
        steps=steps,
        omitted=build_omissions(call.gathered),
        stale=call.gathered.stale,
        prefix=_compare_prefix(state, texts, parts),
        digest=request.digest,
    )
    return AssembledPrompt(request, manifest)


def _sum_tokens(parts: Iterable[PromptPart]) -> int:
    return sum(part.tokens for part in parts)


def _compare_prefix(
    state: SessionState, texts: PromptTexts, parts: tuple[PromptPart, ...]
) -> CachePrefix | None:
    if texts.earlier_call is None:
        return None
    return compute_common_prefix(texts.earlier_call, parts, {ref.turn: ref for ref in state.turns})


def _build_slot(sources: LayerSources, slot: MessageSlot, counting: TokenCounter) -> PlannedSlot:
    match slot:
        case HistoryMessageSlot(history=view):
            return _build_history_slot(sources, view, counting)
        case SystemMessageSlot(system=layers, form=form):
            return _build_layer_slot(sources, "system", layers, form)
        case UserMessageSlot(user=layers, form=form):
            return _build_layer_slot(sources, "user", layers, form)
        case _ as never:
            assert_never(never)


def _build_layer_slot(
    sources: LayerSources,
    role: Literal["system", "user"],
    layers: tuple[str, ...],
    form: str | None,
) -> PlannedMessage:
    blueprint = sources.material.blueprint
    spec = blueprint.forms[form] if form else DEFAULT_MESSAGE_FORMAT
    blocks = tuple(resolve_layer(sources, name, spec) for name in layers)
    files = {name for name in layers if isinstance(blueprint.layers.get(name), PinnedLayer)}
    return PlannedMessage(
        role, spec, include_layers(blocks, files, blueprint.layers) if files else blocks
    )


def _build_history_slot(sources: LayerSources, name: str, counting: TokenCounter) -> PlannedHistory:
    back = build_history_window(sources.material, sources.state, sources.call.at, name)
    return render_history(back, sources.state, sources.texts, counting)
