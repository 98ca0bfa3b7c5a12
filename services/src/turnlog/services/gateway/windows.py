"""Routes for prompts: previews of a call's window, and the recorded prompts of calls.

A preview assembles a call without recording anything or calling a model, for the present, for an
earlier sequence, or for a turn that does not exist yet. A recorded prompt is reproduced in two
independent ways: by the references in its manifest and by assembling the call again. Both are
compared with the recorded digest. When a text was erased, the response names the part and still
contains the manifest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime

from turnlog.events.call import TokenUsage
from turnlog.events.codec import format_rfc3339
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.faults import suggest_word
from turnlog.projections.blueprint.values import check_values
from turnlog.projections.session.commands import SubmitTurn
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.call import AssembledPrompt, PromptCall, parse_provider
from turnlog.projections.window.material import SessionMaterial
from turnlog.projections.window.supposed import HypotheticalTurn, build_hypothetical_turn, replace_budget
from turnlog.services.gateway.assembling import assemble_call
from turnlog.services.gateway.desk import Dependencies, GatewayDependencies, RequestTenant
from turnlog.services.gateway.headers import set_etag
from turnlog.services.gateway.history import AtSequence
from turnlog.services.gateway.moments import convert_to_utc
from turnlog.services.gateway.payloads.asked import WindowPreviewRequest
from turnlog.services.gateway.payloads.prompts import MessageView, WindowView
from turnlog.services.runtime.prices import compute_cost

window_router = APIRouter()

ClockQuery = Annotated[
    AwareDatetime | None,
    Query(description="What the clock says; without it what it said at that sequence, or now"),
]


@window_router.get("/v1/sessions/{session}/window", summary="What a call would see")
async def show_window(
    session: str,
    tenant: RequestTenant,
    deps: Dependencies,
    response: Response,
    call: Annotated[str | None, Query(description="The kind of call; the profile's own")] = None,
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
    asked = replace(_create_call(deps, state, material, call, None), at=reading)
    set_etag(response, state.head.sequence)
    found = await assemble_call(deps, state, material, asked, as_recorded=at is not None or clock is not None)
    return await _create_window_view(deps, state, asked, found)


@window_router.post("/v1/sessions/{session}/window", summary="What a call would see if this were said")
async def preview_window(
    session: str, tenant: RequestTenant, deps: Dependencies, response: Response, form: WindowPreviewRequest
) -> WindowView:
    """Assemble a call for a hypothetical turn; nothing is written and no model is called."""
    state = await deps.sessions.require_state(tenant, session)
    material = await deps.blueprints.load_material(state)
    supposed = _create_hypothetical_turn(deps, state, material, form)
    asked = _create_call(deps, supposed.state, material, form.call, form.model)
    if form.budget is not None:
        material = replace_budget(material, asked.kind, form.budget)
    set_etag(response, state.head.sequence)
    found = await assemble_call(deps, supposed.state, material, asked, supposed)
    return await _create_window_view(deps, state, asked, found)


async def _load_state(
    deps: GatewayDependencies, tenant: str, session: str, at: int | None
) -> tuple[SessionState, str]:
    """Return a state and the clock reading that belongs to it."""
    present = await deps.sessions.require_state(tenant, session)
    if at is None:
        return present, format_rfc3339(deps.sessions.clock())
    moment = await deps.time_travel.load_state_at(tenant, session, at)
    return await _add_later_pins(deps, moment.state_after, present), moment.recorded.envelope.time


async def _add_later_pins(deps: GatewayDependencies, state: SessionState, later: SessionState) -> SessionState:
    """Add the prompts and tools that were pinned later, before the session moved to a new version.
    """
    while later.attributes_in > state.attributes_in:
        moved = await deps.time_travel.load_state_at(state.tenant, state.session, later.attributes_in)
        if moved.state_before is None:
            return state
        later = moved.state_before
    prompts, tools = {**later.prompts, **state.prompts}, {**later.tools, **state.tools}
    return replace(state, prompts=prompts, tools=tools)


def _create_hypothetical_turn(deps: GatewayDependencies, state: SessionState, material: SessionMaterial, form: WindowPreviewRequest) -> HypotheticalTurn:
    blueprint = material.blueprint
    inputs = check_values(blueprint.inputs, form.inputs, "inputs")
    command = SubmitTurn(form.text, blueprint.policies, material.phases, inputs)
    return build_hypothetical_turn(state, command, deps.sessions.clock())


def _create_call(
    deps: GatewayDependencies, state: SessionState, material: SessionMaterial, kind: str | None, model: str | None
) -> PromptCall:
    blueprint = material.blueprint
    kind = kind or material.find_call_kind(state)
    if kind not in blueprint.calls:
        fix = suggest_word(kind[:80], blueprint.calls)
        raise Refused("unknown-kind", f"there is no call {kind[:80]!r}", field="call", fix=fix)
    asked = model or material.resolve_model(state, deps.settings.model)
    return PromptCall(kind, asked, parse_provider(asked), format_rfc3339(deps.sessions.clock()))


async def _create_window_view(deps: GatewayDependencies, state: SessionState, call: PromptCall, assembled: AssembledPrompt) -> WindowView:
    tokens = assembled.manifest.tokens
    usage = TokenUsage(known="estimated", input_tokens=tokens, output_tokens=0)
    return WindowView(
        session=state.session,
        sequence=state.head.sequence,
        call=call.kind,
        model=call.model,
        messages=tuple(MessageView.model_validate(said) for said in assembled.request.messages),
        tools=assembled.request.tools,
        manifest=assembled.manifest,
        cost=compute_cost(call.model, usage, await deps.prices.load_table()),
    )
