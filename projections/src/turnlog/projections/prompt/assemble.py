"""Assemble the prompt of a call and its manifest from session state and blueprint.

Both functions are pure: `find_prompt_needs` lists what must be fetched, the caller fetches it, and
`assemble` builds the prompt. The same record must always give the same bytes. A change that breaks
this raises `ASSEMBLER_VERSION` and keeps the earlier rules, for calls recorded by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, assert_never

from turnlog.events.model.manifest import CachePrefix, Manifest, PromptPart
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.budget_specs import (
    BudgetSpec,
    resolve_limit,
)
from turnlog.projections.blueprint.schema.call_specs import (
    DEFAULT_MESSAGE_FORMAT,
    HistoryMessageSlot,
    MessageFormat,
    MessageSlot,
    SystemMessageSlot,
    UserMessageSlot,
)
from turnlog.projections.blueprint.schema.layer_specs import PinnedLayer
from turnlog.projections.blueprint.token_counters import TokenCounter, build_call_counter
from turnlog.projections.prompt.assembly_inputs import (
    AssembledPrompt,
    PromptCall,
    PromptNeeds,
    PromptTexts,
)
from turnlog.projections.prompt.budget.trim_ladder import (
    BudgetContext,
    UnfittedPrompt,
    fit_plan,
)
from turnlog.projections.prompt.cache_prefix import compute_common_prefix
from turnlog.projections.prompt.chat_request import ChatRequest
from turnlog.projections.prompt.deferred_part import DeferredPart, TextKey
from turnlog.projections.prompt.history.history_selection import HistoryWindow
from turnlog.projections.prompt.history.history_window import (
    build_history_window,
    list_history_windows,
    render_history,
)
from turnlog.projections.prompt.planned_output import PlannedOutput, plan_output
from turnlog.projections.prompt.prompt_plan import PlannedMessage, PlannedSlot, PromptPlan
from turnlog.projections.prompt.render import render_plan
from turnlog.projections.prompt.sources.layer_content import LayerBlock, include_layers
from turnlog.projections.prompt.sources.layer_sources import LayerSources, plan_layer
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.prompt.sources.tool_sources import OfferedTool, plan_offered_tools
from turnlog.projections.prompt.tool_rounds import plan_tool_rounds
from turnlog.projections.session.state import SessionState


@dataclass(frozen=True, slots=True)
class _UnfilledMessage:
    """A message of layers whose texts are not fetched yet."""

    role: Literal["system", "user"]
    form: MessageFormat
    layers: tuple[tuple[str, DeferredPart[LayerBlock]], ...]

    @property
    def keys(self) -> Iterator[TextKey]:
        """The keys of all texts that the message is built from."""
        return (key for _, layer in self.layers for key in layer.keys)


@dataclass(frozen=True, slots=True)
class _UnfilledPrompt:
    """The plan of a call before its texts are fetched."""

    slots: tuple[_UnfilledMessage | HistoryWindow, ...]
    rounds: tuple[DeferredPart[PlannedMessage], ...]
    tools: DeferredPart[tuple[OfferedTool, ...]]

    def list_keys(self, state: SessionState) -> Iterator[TextKey]:
        """Yield the keys of all texts that the prompt is built from."""
        for slot in self.slots:
            yield from slot.list_refs(state) if isinstance(slot, HistoryWindow) else slot.keys
        for message in self.rounds:
            yield from message.keys
        yield from self.tools.keys


def _plan_prompt(
    material: SessionMaterial, state: SessionState, call: PromptCall
) -> _UnfilledPrompt:
    slots = material.blueprint.calls[call.kind].messages
    return _UnfilledPrompt(
        tuple(_plan_slot(LayerSources(material, state, call), slot) for slot in slots),
        plan_tool_rounds(material, state, call.kind),
        plan_offered_tools(material, state, call.kind),
    )


def find_prompt_needs(
    material: SessionMaterial, state: SessionState, call: PromptCall
) -> PromptNeeds:
    """Return what must be fetched before a call can be assembled: what its plan names."""
    keys = tuple(_plan_prompt(material, state, call).list_keys(state))
    return PromptNeeds(
        blobs=tuple(key for key in keys if isinstance(key, str)),
        text_refs=tuple(key for key in keys if not isinstance(key, str)),
        needs_older_turns=can_include_older_turns(material, state, call),
        earlier_sequence=state.called.get(call.kind),
        needs_every_turn=any(
            window.needs_every_turn(state) for window in list_history_windows(material, state, call)
        ),
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


def _find_budget(blueprint: Blueprint, call: PromptCall) -> BudgetSpec | None:
    name = blueprint.calls[call.kind].budget
    return blueprint.budget[name] if name else None


@dataclass(frozen=True, slots=True)
class PlannedPrompt:
    """A prompt with all its texts, before it is fitted to its budget."""

    plan: PromptPlan
    tools: tuple[OfferedTool, ...]
    output: PlannedOutput | None
    beside: tuple[PromptPart, ...]
    """The parts that are sent beside the messages."""
    counting: TokenCounter
    fitting: BudgetContext | None
    """None if the call has no budget."""

    @property
    def unfitted_prompt(self) -> UnfittedPrompt | None:
        """What is to be fitted; None if the call has no budget."""
        return UnfittedPrompt(self.plan, self.fitting) if self.fitting else None


def plan_prompt(
    material: SessionMaterial, state: SessionState, call: PromptCall, texts: PromptTexts
) -> PlannedPrompt:
    """Plan the prompt of a call; raises `Corrupt` if a text was not fetched."""
    spec = material.blueprint.calls[call.kind]
    budget = _find_budget(material.blueprint, call)
    counting = build_call_counter(budget, material.vocabularies, call.model)
    unfilled = _plan_prompt(material, state, call)
    plan = (
        *(
            _fill_slot(slot, material, state, texts, counting, call.assembler)
            for slot in unfilled.slots
        ),
        *(message.fill(texts, "tool rounds") for message in unfilled.rounds),
    )
    output = plan_output(call.kind, spec, call.output_request)
    plan = output.add_to(plan) if output else plan
    tools = unfilled.tools.fill(texts, "tools")
    offers = tuple(tool.build_part(counting) for tool in tools)
    beside = (*offers, *(output.list_parts(counting) if output else ()))
    fitting = (
        BudgetContext(
            budget, counting, call.inputs, _sum_by_component(beside), material.registered_steps
        )
        if budget
        else None
    )
    return PlannedPrompt(plan, tools, output, beside, counting, fitting)


def assemble(
    material: SessionMaterial, state: SessionState, call: PromptCall, texts: PromptTexts
) -> AssembledPrompt:
    """Assemble the prompt of a call.

    Raises `Refused` if it cannot fit its budget, and `Corrupt` if a text was not fetched.
    """
    planned = plan_prompt(material, state, call, texts)
    counting, fitting, output = planned.counting, planned.fitting, planned.output
    plan, steps = fit_plan(planned.plan, fitting) if fitting else (planned.plan, ())
    messages, message_parts = render_plan(plan, counting)
    parts = (*message_parts, *planned.beside)
    offered = tuple(each.tool for each in planned.tools)
    spec = material.blueprint.calls[call.kind]
    parameters = {**spec.parameters, **(output.parameters if output else {})}
    request = ChatRequest(call.model, messages, offered, parameters)
    manifest = Manifest(
        kind=call.kind,
        at=call.at,
        sequence=state.head.sequence,
        assembler=call.assembler,
        counter=counting.counter,
        budget=fitting.limit if fitting else None,
        tokens=_sum_tokens(parts),
        parts=parts,
        steps=steps,
        omitted=call.gathered.omitted,
        stale=call.gathered.stale,
        prefix=_compare_prefix(state, texts, parts),
        digest=request.digest,
    )
    return AssembledPrompt(request, manifest)


def _sum_tokens(parts: Iterable[PromptPart]) -> int:
    return sum(part.tokens for part in parts)


def _sum_by_component(parts: Iterable[PromptPart]) -> dict[str, int]:
    tokens: dict[str, int] = {}
    for part in parts:
        tokens[part.component] = tokens.get(part.component, 0) + part.tokens
    return tokens


def _compare_prefix(
    state: SessionState, texts: PromptTexts, parts: tuple[PromptPart, ...]
) -> CachePrefix | None:
    if texts.earlier_call is None:
        return None
    return compute_common_prefix(texts.earlier_call, parts, {ref.turn: ref for ref in state.turns})


def _plan_slot(sources: LayerSources, slot: MessageSlot) -> _UnfilledMessage | HistoryWindow:
    match slot:
        case HistoryMessageSlot(history=view):
            call = sources.call
            return build_history_window(sources.material, sources.state, call.at, call.kind, view)
        case SystemMessageSlot(system=layers, form=form):
            return _plan_message(sources, "system", layers, form)
        case UserMessageSlot(user=layers, form=form):
            return _plan_message(sources, "user", layers, form)
        case _ as never:
            assert_never(never)


def _plan_message(
    sources: LayerSources,
    role: Literal["system", "user"],
    layers: tuple[str, ...],
    form: str | None,
) -> _UnfilledMessage:
    spec = sources.material.blueprint.forms[form] if form else DEFAULT_MESSAGE_FORMAT
    return _UnfilledMessage(
        role, spec, tuple((name, plan_layer(sources, name, spec)) for name in layers)
    )


def _fill_slot(
    slot: _UnfilledMessage | HistoryWindow,
    material: SessionMaterial,
    state: SessionState,
    texts: PromptTexts,
    counting: TokenCounter,
    assembler: int,
) -> PlannedSlot:
    if isinstance(slot, HistoryWindow):
        return render_history(slot, state, texts, counting, assembler)
    specs = material.blueprint.layers
    blocks = tuple(layer.fill(texts, f"layer {name}") for name, layer in slot.layers)
    files = {name for name, _ in slot.layers if isinstance(specs.get(name), PinnedLayer)}
    return PlannedMessage(
        slot.role, slot.form, include_layers(blocks, files, specs) if files else blocks
    )
