"""Assemble the prompt of a call and its manifest from session state and blueprint.

Both functions are pure: `plan_prompt` plans the prompt and names the texts that it is built from,
the caller fetches them, and `assemble` builds the prompt of that plan. Where the state keeps older
turns only as runs, `find_missing_turns` says so before the plan is made. The same record must
always give the same bytes. A change that breaks this raises `ASSEMBLER_VERSION` and keeps the
earlier rules, for calls recorded by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, assert_never

from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.events.model.manifest import AppliedTrimStep, CachePrefix, Manifest, PromptPart
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.budget_specs import BudgetSpec
from turnlog.projections.blueprint.schema.call_specs import (
    DEFAULT_MESSAGE_FORMAT,
    HistoryMessageSlot,
    MessageFormat,
    MessageSlot,
    SystemMessageSlot,
    UserMessageSlot,
)
from turnlog.projections.blueprint.schema.layer_specs import (
    HISTORY_COMPONENT,
    INPUT_LAYER,
    REJECTED_LAYER,
    PinnedLayer,
)
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.prompt.assembly_inputs import (
    AssembledPrompt,
    PromptCall,
    PromptNeeds,
    PromptTexts,
    has_cut_turns,
    has_joined_omissions,
    has_joined_summary,
    has_left_out_tools,
)
from turnlog.projections.prompt.budget.budget_error import BudgetExceeded
from turnlog.projections.prompt.budget.call_limits import CallLimits, find_call_limits
from turnlog.projections.prompt.budget.left_out_tools import find_tool_room, list_needed_tools
from turnlog.projections.prompt.budget.plan_sizes import measure_component, measure_plan
from turnlog.projections.prompt.budget.trim_ladder import (
    BudgetContext,
    UnfittedPrompt,
    fit_plan,
)
from turnlog.projections.prompt.cache_marks import find_cache_marks, mark_messages
from turnlog.projections.prompt.cache_prefix import compute_common_prefix
from turnlog.projections.prompt.chat_request import ChatRequest
from turnlog.projections.prompt.deferred_part import DeferredPart, TextKey
from turnlog.projections.prompt.history.history_window import (
    SelectedTurns,
    build_history_window,
    list_history_windows,
    render_history,
)
from turnlog.projections.prompt.manifest_reports import sum_component_tokens
from turnlog.projections.prompt.planned_media import PlannedMedia, plan_media
from turnlog.projections.prompt.planned_output import (
    PlannedOutput,
    plan_output,
    plan_rejected_answer,
)
from turnlog.projections.prompt.prompt_plan import (
    PlannedMessage,
    PlannedSlot,
    PromptPlan,
    leave_out_unread_media,
)
from turnlog.projections.prompt.render import render_plan
from turnlog.projections.prompt.request_dialect import (
    PLAIN_DIALECT,
    TOOL_CHOICE,
    select_parameters,
)
from turnlog.projections.prompt.sources.layer_content import LayerBlock, include_layers
from turnlog.projections.prompt.sources.layer_sources import LayerSources, plan_layer
from turnlog.projections.prompt.sources.offered_tools import OfferedTool, rename_chosen_tool
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.prompt.sources.tool_sources import plan_offered_tools
from turnlog.projections.prompt.tool_rounds import plan_tool_rounds
from turnlog.projections.session.state import SessionState

MissingTurns = Literal["older", "every"]
"""Turns that a state keeps only as runs: the latest `MAX_RECENT_TURNS`, or those before as well."""


def find_missing_turns(
    material: SessionMaterial, state: SessionState, call: PromptCall
) -> MissingTurns | None:
    """Return which turns the state lacks for a call; those must be folded again before its plan."""
    state = _select_kept_turns(state, call)
    budget = _find_budget(material.blueprint, call)
    tokens = budget.resolve_largest(call.inputs) if budget else 0
    windows = list_history_windows(material, state, call)
    if not any(window.has_reachable_runs(state, budget, tokens) for window in windows):
        return None
    return "every" if any(window.needs_every_turn(state) for window in windows) else "older"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfilledPrompt:
    """The plan of a call before its texts are fetched, with what it was planned from."""

    material: SessionMaterial
    state: SessionState
    call: PromptCall
    slots: tuple[_UnfilledMessage | SelectedTurns, ...]
    rounds: tuple[DeferredPart[PlannedMessage], ...]
    rejected: DeferredPart[tuple[PlannedMessage, ...]] | None
    """The messages about the rejected answer of the attempt before."""
    tools: DeferredPart[tuple[OfferedTool, ...]]

    @property
    def needs(self) -> PromptNeeds:
        """What must be fetched before the prompt can be assembled."""
        keys = tuple(self._iterate_keys())
        return PromptNeeds(
            blobs=tuple(key for key in keys if isinstance(key, str)),
            text_refs=tuple(key for key in keys if not isinstance(key, str)),
            earlier_sequence=self.state.called.get(self.call.kind),
        )

    def _iterate_keys(self) -> Iterator[TextKey]:
        for slot in self.slots:
            yield from slot.list_refs() if isinstance(slot, SelectedTurns) else slot.keys
        for message in self.rounds:
            yield from message.keys
        yield from self.rejected.keys if self.rejected else ()
        yield from self.tools.keys


def plan_prompt(material: SessionMaterial, state: SessionState, call: PromptCall) -> UnfilledPrompt:
    """Plan the prompt of a call, without its texts."""
    state = _select_kept_turns(state, call)
    slots = material.blueprint.calls[call.kind].messages
    sources = LayerSources(material, state, call)
    return UnfilledPrompt(
        material=material,
        state=state,
        call=call,
        slots=tuple(_plan_slot(sources, slot) for slot in slots),
        rounds=plan_tool_rounds(material, state, call),
        rejected=plan_rejected_answer(material, state, call.kind),
        tools=plan_offered_tools(material, state, call.kind),
    )


def _select_kept_turns(state: SessionState, call: PromptCall) -> SessionState:
    """Return the state with the cut turns that the assembler of the call includes: all or none.

    While the processes of a service are replaced, one of an earlier version assembles prompts
    without those that a later one has recorded.
    """
    if has_cut_turns(call.assembler):
        return state
    turns = tuple(replace(ref, is_kept=False) for ref in state.turns)
    earlier = tuple(replace(run, is_kept=False) for run in state.earlier)
    return replace(state, turns=turns, earlier=earlier)


def _find_budget(blueprint: Blueprint, call: PromptCall) -> BudgetSpec | None:
    name = blueprint.calls[call.kind].budget
    return blueprint.budget[name] if name else None


def _find_history_limit(blueprint: Blueprint, call: PromptCall) -> int | None:
    budget = _find_budget(blueprint, call)
    return budget.resolve_component(HISTORY_COMPONENT, call.inputs) if budget else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPrompt:
    """A prompt with all its texts, before it is fitted to its budget."""

    unfilled: UnfilledPrompt
    texts: PromptTexts
    """The texts, and the previous call of the kind, which the manifest is compared with."""
    plan: PromptPlan
    rejected: PromptPlan
    """What follows the plan where it has room: the rejected answer of the attempt before."""
    tools: tuple[OfferedTool, ...]
    output: PlannedOutput | None
    beside: tuple[PromptPart, ...]
    """The parts that are sent beside the messages."""
    limits: CallLimits
    fitting: BudgetContext | None
    """None if the call has no budget."""
    tool_steps: tuple[AppliedTrimStep, ...] = ()
    """The steps by which tools without room were left out."""
    keeps_tools: bool = False
    """Whether it is refused before a tool is left out."""

    @property
    def unfitted_prompt(self) -> UnfittedPrompt | None:
        """The plan to be fitted; None if the call has no budget."""
        return UnfittedPrompt(self.plan, self.fitting) if self.fitting else None


def fill_prompt(
    unfilled: UnfilledPrompt, texts: PromptTexts, *, is_corrected: bool = True
) -> PlannedPrompt:
    """Put the texts into a plan; raises `Corrupt` if one was not fetched.

    Counts and limits are corrected by those of the provider unless `is_corrected` says otherwise.
    """
    material, call = unfilled.material, unfilled.call
    limits = find_call_limits(
        material=material,
        state=unfilled.state,
        kind=call.kind,
        model=call.model,
        assembler=call.assembler,
        is_corrected=is_corrected,
        context_tokens=call.dialect.context_tokens,
    )
    counting = limits.counting
    plan = (
        *(_fill_slot(slot, unfilled, texts, counting) for slot in unfilled.slots),
        *(message.fill(texts, "tool rounds") for message in unfilled.rounds),
    )
    if not (call.dialect.images and call.dialect.files and call.dialect.audio):
        plan = leave_out_unread_media(plan, call.dialect, counting)
    output = plan_output(call.kind, material.blueprint.calls[call.kind], call.output_request)
    plan = output.add_to(plan) if output else plan
    tools = unfilled.tools.fill(texts, "tools")
    if call.dialect.tool_refs == "inline":
        tools = tuple(tool.inline_references() for tool in tools)
    tools = tuple(tool.choose_name(call.dialect.tool_names) for tool in tools)
    offers = tuple(tool.build_part(counting) for tool in tools)
    beside = (*offers, *(output.list_parts(counting) if output else ()))
    fitting = (
        BudgetContext(
            budget=limits.budget,
            counting=counting,
            inputs=call.inputs,
            beside=sum_component_tokens(beside),
            registered=material.registered_steps,
            model_limit=limits.model_limit,
            assembler=call.assembler,
            earlier=texts.earlier_call,
        )
        if limits.budget
        else None
    )
    return PlannedPrompt(
        unfilled=unfilled,
        texts=texts,
        plan=plan,
        rejected=unfilled.rejected.fill(texts, REJECTED_LAYER) if unfilled.rejected else (),
        tools=tools,
        output=output,
        beside=beside,
        limits=limits,
        fitting=fitting,
    )


def assemble(unfilled: UnfilledPrompt, texts: PromptTexts) -> AssembledPrompt:
    """Assemble the prompt of a plan.

    Raises `Refused` if it cannot fit its budget, and `Corrupt` if a text was not fetched.
    """
    return fit_prompt(fill_prompt(unfilled, texts))


def fit_prompt(planned: PlannedPrompt) -> AssembledPrompt:
    """Fit a prompt to its budget and render it; raises `Refused` if it cannot fit.

    A rejected answer that has no room beside everything else is left out. Where corrected counts
    leave no room for what every prompt of the session has, they are no use, whether the provider
    is wrong or right: the prompt is counted as the blueprint says, and its provider decides. Tools
    that have no room then are left out.
    """
    if planned.rejected:
        longer = replace(
            planned, plan=(*planned.plan, *planned.rejected), rejected=(), keeps_tools=True
        )
        with suppress(Refused):
            return fit_prompt(longer)
    unfilled, call = planned.unfilled, planned.unfilled.call
    limits, fitting = planned.limits, planned.fitting
    try:
        plan, steps = fit_plan(planned.plan, fitting) if fitting else (planned.plan, ())
    except BudgetExceeded as exceeded:
        if other := _plan_otherwise(planned, exceeded):
            return fit_prompt(other)
        raise
    dialect = call.dialect
    messages, message_parts = render_plan(
        plan,
        limits.counting,
        dialect=dialect,
        joins_summaries=has_joined_summary(call.assembler),
        joins_omissions=has_joined_omissions(call.assembler),
    )
    parts = (*message_parts, *planned.beside)
    offered = tuple(each.tool for each in planned.tools)
    spec = unfilled.material.blueprint.calls[call.kind]
    parameters = _select_parameters(planned, spec.parameters)
    has_marks = dialect.cache_marks != "none"
    marks = find_cache_marks(spec, messages, message_parts, steps) if has_marks else ()
    request = ChatRequest(call.model, mark_messages(messages, marks), offered, parameters)
    tokens = _sum_tokens(parts)
    budget = fitting.find_limit(tokens) if fitting else None
    manifest = Manifest(
        kind=call.kind,
        at=call.at,
        sequence=unfilled.state.head.sequence,
        assembler=call.assembler,
        counter=limits.counter,
        budget=budget,
        lowered_by=_find_lowering_call(limits, fitting, budget),
        tokens=tokens,
        parts=parts,
        steps=(*planned.tool_steps, *steps),
        omitted=call.gathered.omitted,
        stale=call.gathered.stale,
        prefix=_compare_prefix(planned, parts),
        dialect=None if dialect == PLAIN_DIALECT else dialect,
        cache_marks=marks,
        digest=request.digest,
    )
    return AssembledPrompt(request, manifest)


def _plan_otherwise(planned: PlannedPrompt, exceeded: BudgetExceeded) -> PlannedPrompt | None:
    """Return how else a prompt is planned that is too long; None if it is refused."""
    opened = planned.unfilled.state.open
    was_refused = opened is not None and opened.has_overflowed
    if planned.limits.correction is None or was_refused or exceeded.has_room_without_turn:
        return _leave_out_tools(planned, exceeded)
    uncorrected = fill_prompt(planned.unfilled, planned.texts, is_corrected=False)
    return replace(uncorrected, keeps_tools=planned.keeps_tools)


def _leave_out_tools(planned: PlannedPrompt, exceeded: BudgetExceeded) -> PlannedPrompt | None:
    """Return the prompt with as few tools less as make it fit; None if it cannot fit so."""
    fitting, call = planned.fitting, planned.unfilled.call
    if fitting is None or planned.keeps_tools or not has_left_out_tools(call.assembler):
        return None
    counting = fitting.counting
    size = (
        measure_component(
            planned.plan,
            component=exceeded.of.component,
            counting=counting,
            beside=fitting.beside.get(exceeded.of.component, 0),
        )
        if exceeded.of.component
        else measure_plan(planned.plan, counting, sum(fitting.beside.values()))
    )
    room = find_tool_room(
        tools=planned.tools,
        parts=planned.beside,
        exceeded=exceeded,
        needed=list_needed_tools(planned.unfilled.material, planned.unfilled.state, call.kind),
        before=size.tokens,
    )
    if room is None:
        return None
    return replace(
        planned,
        tools=room.tools,
        beside=room.parts,
        fitting=replace(fitting, beside=sum_component_tokens(room.parts)),
        tool_steps=(*planned.tool_steps, *room.steps),
    )


def _select_parameters(
    planned: PlannedPrompt, stated: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return the parameters that are sent; a tool that one names has the name that is offered."""
    dialect, output = planned.unfilled.call.dialect, planned.output
    asked = {**stated, **(output.parameters if output else {})}
    sent = select_parameters(dialect, asked, planned.tools)
    if TOOL_CHOICE in sent and dialect.tool_names and dialect.tool_names.names_choice:
        sent[TOOL_CHOICE] = rename_chosen_tool(sent[TOOL_CHOICE], planned.tools)
    return sent


def _find_lowering_call(
    limits: CallLimits, fitting: BudgetContext | None, budget: int | None
) -> str | None:
    """Return the call whose refusal lowered a budget; None if it is the blueprint's."""
    if fitting is None or budget is None or limits.correction is None:
        return None
    return limits.correction.refused_in if fitting.is_lowered(budget) else None


def _sum_tokens(parts: Iterable[PromptPart]) -> int:
    return sum(part.tokens for part in parts)


def _compare_prefix(planned: PlannedPrompt, parts: tuple[PromptPart, ...]) -> CachePrefix | None:
    earlier = planned.texts.earlier_call
    if earlier is None or earlier.is_erased:
        return earlier.recorded_prefix if earlier else None
    turns = {ref.turn: ref for ref in planned.unfilled.state.turns}
    return compute_common_prefix(earlier, parts, turns)


def _plan_slot(sources: LayerSources, slot: MessageSlot) -> _UnfilledMessage | SelectedTurns:
    match slot:
        case HistoryMessageSlot(history=view):
            state, call = sources.state, sources.call
            window = build_history_window(
                material=sources.material,
                state=state,
                at=call.at,
                kind=call.kind,
                name=view,
                model=call.model,
            )
            return window.select_turns(state)
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
    slot: _UnfilledMessage | SelectedTurns,
    unfilled: UnfilledPrompt,
    texts: PromptTexts,
    counting: TokenCounter,
) -> PlannedSlot:
    if isinstance(slot, SelectedTurns):
        return render_history(
            selected=slot,
            state=unfilled.state,
            texts=texts,
            counting=counting,
            assembler=unfilled.call.assembler,
            limit=_find_history_limit(unfilled.material.blueprint, unfilled.call),
        )
    specs = unfilled.material.blueprint.layers
    blocks = tuple(layer.fill(texts, f"layer {name}") for name, layer in slot.layers)
    files = {name for name, _ in slot.layers if isinstance(specs.get(name), PinnedLayer)}
    return PlannedMessage(
        role=slot.role,
        form=slot.form,
        blocks=include_layers(blocks, files, specs) if files else blocks,
        media=_plan_input_media(slot, unfilled),
    )


def _plan_input_media(slot: _UnfilledMessage, unfilled: UnfilledPrompt) -> tuple[PlannedMedia, ...]:
    """Return the media of the turn, in the message that has its text."""
    opened = unfilled.state.open
    if opened is None or not opened.submission.media:
        return ()
    has_input = any(name == INPUT_LAYER for name, _ in slot.layers)
    return plan_media(opened.submission.media, unfilled.call.model) if has_input else ()
