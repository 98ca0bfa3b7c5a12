"""Routes for prompts: previews of a call's window, and the recorded prompts of calls.

A preview assembles a call without recording anything or calling a model, for the present, for an
earlier sequence, or for a turn that does not exist yet. A recorded prompt is reproduced in two
independent ways: by the references in its manifest and by assembling the call again. Both are
compared with the recorded digest. When a text was erased, the response names the part and still
contains the manifest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import JsonValue

from turnlog.events.codec import format_rfc3339
from turnlog.events.content import compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.attempt_figures import AttemptCost, TokenUsage
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import Manifest
from turnlog.events.model.override_events import UserOverride
from turnlog.events.model.prompt_events import PromptFile
from turnlog.events.store.memory_log import MemoryBlobStore
from turnlog.projections.audit.record.prompt_readback import list_referenced_blobs
from turnlog.projections.audit.verify.prompt_reproduction import (
    ReproductionResult,
    read_verified_request,
)
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.prompt_overrides import list_prompt_layers
from turnlog.projections.blueprint.validation.blueprint_faults import suggest_word
from turnlog.projections.blueprint.validation.input_values import check_values
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt, PromptCall
from turnlog.projections.prompt.chat_request import ChatRequest
from turnlog.projections.prompt.hypothetical_turn import (
    HypotheticalTurn,
    build_hypothetical_turn,
    open_hypothetical_session,
    replace_budget,
)
from turnlog.projections.prompt.manifest_reports import LayerReport, list_layer_reports
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import SubmitTurn
from turnlog.projections.session.pinned_prompts import find_pinned_files
from turnlog.projections.session.state import SessionState
from turnlog.services.api.prompt_payloads import (
    AssembledPromptView,
    PromptAssembly,
    PromptAssemblyMeta,
    RecordedPromptView,
    ReproductionFault,
    ReproductionView,
    WindowView,
    describe_messages,
)
from turnlog.services.api.requests import (
    AssembleRequest,
    OpenSessionRequest,
    WindowPreviewRequest,
)
from turnlog.services.audit.call_reproduction import ReproducedPrompt, reproduce_call
from turnlog.services.blueprints.blueprint_files import FoundPromptFile
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.blueprints.model_prices import compute_cost
from turnlog.services.gateway.dependencies import Dependencies, GatewayDependencies, RequestTenant
from turnlog.services.gateway.http.headers import set_etag
from turnlog.services.gateway.http.request_checks import AtSequence, QueryTime, convert_to_utc
from turnlog.services.gateway.http.request_identity import ReaderIdentity, RequestIdentity
from turnlog.services.gateway.routes.session_routes import create_open_command
from turnlog.services.sessions.prompt_inputs import UnrecordedInputs

router = APIRouter()

ClockQuery = Annotated[
    QueryTime | None,
    Query(description="The clock reading; by default that of the sequence, or the present"),
]


@router.get("/v1/sessions/{session}/window", summary="Preview the window of a call")
async def show_window(
    session: str,
    tenant: RequestTenant,
    deps: Dependencies,
    response: Response,
    call: Annotated[
        str | None, Query(description="The kind of call; by default that of the profile")
    ] = None,
    at: AtSequence = None,
    clock: ClockQuery = None,
) -> WindowView:
    """Assemble a call without making it, and return its prompt and manifest.

    With `at`, it is the call that would have been made at that sequence: with the clock, the
    segment library and the prompt files of that time, as far as the session has pinned them since.
    """
    state, reading = await _load_state(deps, tenant, session, at)
    if clock is not None:
        reading = format_rfc3339(convert_to_utc(clock, "clock"))
    material = await deps.blueprints.load_material(state)
    prompt_call = replace(_create_call(deps, state, material, call, None), at=reading)
    set_etag(response, state.head.sequence)
    found = await assemble_call(
        deps, state, material, prompt_call, as_recorded=at is not None or clock is not None
    )
    return await _create_window_view(deps, state, material, prompt_call, found)


@router.post("/v1/sessions/{session}/window", summary="Preview the window of a hypothetical turn")
async def preview_window(
    session: str,
    caller: ReaderIdentity,
    deps: Dependencies,
    response: Response,
    form: WindowPreviewRequest,
) -> WindowView:
    """Assemble a call for a hypothetical turn; nothing is written and no model is called."""
    state = await deps.command_handler.require_state(caller.tenant, session)
    material = await deps.blueprints.load_material(state)
    set_etag(response, state.head.sequence)
    call, found = await _assemble_hypothetical_call(deps, caller, state, material, form)
    return await _create_window_view(deps, state, material, call, found)


async def _assemble_hypothetical_call(
    deps: GatewayDependencies,
    caller: RequestIdentity,
    state: SessionState,
    material: SessionMaterial,
    form: WindowPreviewRequest,
) -> tuple[PromptCall, AssembledPrompt]:
    user = caller.choose_user(form.user)
    overrides = await deps.overrides.list_turn_overrides(caller.tenant, user, material.blueprint)
    supposed = _create_hypothetical_turn(deps, state, material, form, user, overrides)
    call = _create_call(deps, supposed.state, material, form.call, form.model)
    if form.budget is not None:
        material = replace_budget(material, call.kind, form.budget)
    return call, await assemble_call(deps, supposed.state, material, call, supposed)


async def _load_state(
    deps: GatewayDependencies, tenant: str, session: str, at: int | None
) -> tuple[SessionState, str]:
    """Return a state and the clock reading that belongs to it."""
    present = await deps.command_handler.require_state(tenant, session)
    if at is None:
        return present, format_rfc3339(deps.command_handler.clock())
    moment = await deps.time_travel.load_state_at(tenant, session, at)
    return await _add_later_pins(deps, moment.state_after, present), moment.recorded.envelope.time


async def _add_later_pins(
    deps: GatewayDependencies, state: SessionState, later: SessionState
) -> SessionState:
    """Add the prompts and tools that were pinned later, before the move to a new version."""
    while later.attributes_in > state.attributes_in:
        moved = await deps.time_travel.load_state_at(
            state.tenant, state.session, later.attributes_in
        )
        if moved.state_before is None:
            return state
        later = moved.state_before
    prompts, tools = {**later.prompts, **state.prompts}, {**later.tools, **state.tools}
    return replace(state, prompts=prompts, tools=tools)


def _create_hypothetical_turn(
    deps: GatewayDependencies,
    state: SessionState,
    material: SessionMaterial,
    form: WindowPreviewRequest,
    user: str | None,
    overrides: tuple[UserOverride, ...],
) -> HypotheticalTurn:
    blueprint = material.blueprint
    inputs = check_values(blueprint.inputs, form.inputs, "inputs")
    command = SubmitTurn(
        *(form.text, blueprint.policies, material.phases, inputs), user=user, overrides=overrides
    )
    return build_hypothetical_turn(state, command, deps.command_handler.clock())


def _create_call(
    deps: GatewayDependencies,
    state: SessionState,
    material: SessionMaterial,
    kind: str | None,
    model: str | None,
) -> PromptCall:
    blueprint = material.blueprint
    kind = kind or material.find_call_kind(state)
    if kind not in blueprint.calls:
        fix = suggest_word(kind[:80], blueprint.calls)
        raise Refused("unknown-kind", f"there is no call {kind[:80]!r}", field="call", fix=fix)
    resolved_model = model or material.resolve_model(state, deps.settings.model)
    return PromptCall(kind, resolved_model, format_rfc3339(deps.command_handler.clock()))


async def _create_window_view(
    deps: GatewayDependencies,
    state: SessionState,
    material: SessionMaterial,
    call: PromptCall,
    assembled: AssembledPrompt,
) -> WindowView:
    return WindowView(
        session=state.session,
        sequence=state.head.sequence,
        call=call.kind,
        model=call.model,
        messages=describe_messages(assembled.request.messages),
        tools=assembled.request.tools,
        manifest=assembled.manifest,
        cost=await _estimate_cost(deps, call, assembled),
        turn_calls=material.list_call_kinds(state),
    )


async def _estimate_cost(
    deps: GatewayDependencies, call: PromptCall, assembled: AssembledPrompt
) -> AttemptCost:
    """Return the cost of the prompt alone."""
    usage = TokenUsage(known="estimated", input_tokens=assembled.manifest.tokens, output_tokens=0)
    return compute_cost(call.model, usage, await deps.prices.load_table())


async def assemble_call(
    deps: GatewayDependencies,
    state: SessionState,
    material: SessionMaterial,
    call: PromptCall,
    hypothetical: HypotheticalTurn | None = None,
    *,
    as_recorded: bool = False,
) -> AssembledPrompt:
    """Assemble a call; with a hypothetical turn, from the state, text and inputs of that turn.

    Prompt files that the session has not pinned yet are read as they are now, because its first
    call would pin those. With `as_recorded`, the call gets the segment library of its time.
    """
    files = _read_unpinned_prompts(deps, state, material.blueprint, call.provider)
    state = _pin_prompts(state, call.provider, files)
    texts = {compute_digest(text): text for _, text in files.values()}
    inputs = await deps.prompt_inputs.load_new_call(
        material, state, call, UnrecordedInputs(hypothetical, texts), at_call_time=as_recorded
    )
    return inputs.assemble_prompt()


def _read_unpinned_prompts(
    deps: GatewayDependencies, state: SessionState, blueprint: Blueprint, provider: str
) -> Mapping[str, FoundPromptFile]:
    """Return the prompt files that the session's first call would pin; none after that call."""
    layers = list_prompt_layers(blueprint)
    if not layers or find_pinned_files(state.prompts, provider) is not None:
        return {}
    return deps.blueprint_folders.read_prompt_files(blueprint, layers, provider, state.attributes)


def _pin_prompts(
    state: SessionState, provider: str, files: Mapping[str, FoundPromptFile]
) -> SessionState:
    if not files:
        return state
    pinned = {
        name: PromptFile(digest=compute_digest(text), path=path)
        for name, (path, text) in files.items()
    }
    return replace(state, prompts={**state.prompts, provider: pinned})


@router.post(
    "/v1/assemble",
    summary="Assemble a prompt without a session",
    response_model_exclude_none=True,
)
async def assemble_prompt(
    caller: ReaderIdentity, deps: Dependencies, form: AssembleRequest
) -> AssembledPromptView:
    """Assemble the first call of a session that has one turn; no model is called.

    Nothing is written. The segments are those of the library now, the prompt files as they are now.
    """
    unwritten = BlueprintStore(MemoryBlobStore())
    opening = OpenSessionRequest(
        blueprint=form.blueprint, attributes=form.attributes, profile=form.profile
    )
    command = await create_open_command(deps, unwritten, caller.tenant, opening)
    state = open_hypothetical_session(caller.tenant, command, deps.command_handler.clock())
    material = await unwritten.load_material(state)
    call, found = await _assemble_hypothetical_call(deps, caller, state, material, form)
    return AssembledPromptView(
        prompt=_join_messages(found.request),
        meta=_create_assembly_meta(found.manifest),
        call=call.kind,
        model=call.model,
        messages=describe_messages(found.request.messages),
        tools=found.request.tools,
        manifest=found.manifest,
        cost=await _estimate_cost(deps, call, found),
    )


@router.get("/v1/sessions/{session}/calls/{call}/prompt", summary="Show the prompt of a call")
async def show_prompt(
    session: str, call: str, tenant: RequestTenant, deps: Dependencies, response: Response
) -> RecordedPromptView:
    """Reproduce the exact prompt of a call in both ways, and compare them with the record."""
    moment = await deps.time_travel.find_call(tenant, session, call)
    ways = await reproduce_call(deps.time_travel, moment, moment.call_context)
    set_etag(response, moment.recorded.sequence)
    return _create_recorded_prompt_view(moment.recorded, moment.call_context, ways)


def _create_recorded_prompt_view(
    recorded: RecordedEvent, call: ContextAssembled, reproductions: ReproducedPrompt
) -> RecordedPromptView:
    request = (
        reproductions.reference.request if reproductions.reference.outcome == "reproduced" else None
    )
    wrong = [
        way for way in (reproductions.reference, reproductions.assembly) if way.outcome == "failed"
    ]
    return RecordedPromptView(
        session=recorded.session,
        sequence=recorded.sequence,
        call=call.call,
        turn=call.turn,
        model=call.model,
        parameters=call.parameters,
        messages=describe_messages(request.messages) if request else (),
        tools=request.tools if request else (),
        manifest=call.manifest,
        digest=call.manifest.digest,
        body_digest=call.body_digest,
        reference=_create_reproduction_view(reproductions.reference),
        assembly=_create_reproduction_view(reproductions.assembly),
        verified=not wrong,
        fault=_create_fault(wrong[0]) if wrong else None,
    )


def _create_reproduction_view(reproduction: ReproductionResult) -> ReproductionView:
    return ReproductionView(
        outcome=reproduction.outcome,
        digest=reproduction.request.digest if reproduction.request else None,
        fault=None if reproduction.outcome == "reproduced" else _create_fault(reproduction),
    )


def _create_fault(reproduction: ReproductionResult) -> ReproductionFault:
    return ReproductionFault(where=reproduction.first_difference, detail=reproduction.detail)


@router.get(
    "/v1/sessions/{session}/calls/{call}/assembly",
    summary="Show how the prompt of a call was assembled",
    response_model_exclude_none=True,
)
async def show_assembly(
    session: str, call: str, tenant: RequestTenant, deps: Dependencies, response: Response
) -> PromptAssembly:
    """Return the prompt of a call, its layers and segments, and what was cut to fit.

    The text comes from the manifest's references and the rest from the manifest; nothing is
    assembled again.
    """
    moment = await deps.time_travel.find_call(tenant, session, call)
    recorded, fixed = moment.recorded, moment.call_context
    events = await deps.time_travel.load_referenced_events(moment)
    blobs = await deps.command_handler.texts.read_blobs(
        tenant, list_referenced_blobs(fixed.manifest)
    )
    request = read_verified_request(fixed, events, blobs)
    set_etag(response, recorded.sequence)
    return PromptAssembly(
        prompt=_join_messages(request), meta=_create_assembly_meta(fixed.manifest)
    )


def _join_messages(request: ChatRequest) -> str:
    return "\n\n".join(message.content for message in request.messages)


def _create_assembly_meta(manifest: Manifest) -> PromptAssemblyMeta:
    layers = list_layer_reports(manifest)
    return PromptAssemblyMeta(
        order=tuple(each.layer for each in layers if each.stands),
        segmentIdsByScope={each.layer: each.segments for each in layers if each.segments},
        tokensEstimated=manifest.tokens,
        truncated=dict(_iterate_truncations(layers)) or None,
    )


def _iterate_truncations(layers: Sequence[LayerReport]) -> Iterator[tuple[str, JsonValue]]:
    if dropped := [each.layer for each in layers if each.dropped]:
        yield "droppedScopes", [*dropped]
    for each in layers:
        name = _convert_to_camel_case(each.layer)
        if each.trimmed:
            yield f"{name}Trimmed", {"fromChars": each.trimmed.of, "toChars": each.trimmed.to}
        if each.compressed:
            yield f"{name}Compressed", True
        if each.dropped_items:
            yield f"{name}Dropped", [*each.dropped_items]
        if each.replaced_items:
            yield f"{name}Cued", [*each.replaced_items]
        if each.lowered:
            yield (
                f"{name}DroppedTiers",
                [
                    {f"{name}Id": low.item, "fromTier": low.from_tier, "toTier": low.to_tier}
                    for low in each.lowered
                ],
            )


def _convert_to_camel_case(layer: str) -> str:
    first, *rest = layer.replace("-", "_").split("_")
    return first + "".join(word.capitalize() for word in rest)
