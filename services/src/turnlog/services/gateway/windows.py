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

from turnlog.events.call import Usage
from turnlog.events.codec import rfc3339
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.faults import instead_of
from turnlog.projections.blueprint.values import checked_values
from turnlog.projections.session.commands import SubmitTurn
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.call import Assembled, Call, provider_of
from turnlog.projections.window.material import Material
from turnlog.projections.window.supposed import Supposed, supposing, with_budget
from turnlog.services.gateway.assembling import assembled
from turnlog.services.gateway.desk import AtDesk, Desk, Tenant
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.history import At
from turnlog.services.gateway.moments import in_utc
from turnlog.services.gateway.payloads.asked import TryForm
from turnlog.services.gateway.payloads.prompts import MessageView, WindowView
from turnlog.services.runtime.prices import cost_of

router = APIRouter()

Clock = Annotated[
    AwareDatetime | None,
    Query(description="What the clock says; without it what it said at that sequence, or now"),
]


@router.get("/v1/sessions/{session}/window", summary="What a call would see")
async def show_window(
    session: str,
    tenant: Tenant,
    desk: AtDesk,
    response: Response,
    call: Annotated[str | None, Query(description="The kind of call; the profile's own")] = None,
    at: At = None,
    clock: Clock = None,
) -> WindowView:
    """Assemble a call without making it, and return its prompt and manifest.

    With `at`, it is the call that would have been made at that sequence: with the clock, the
    segment library and the prompt files of that time, as far as the session has pinned them since.
    """
    state, reading = await _moment(desk, tenant, session, at)
    if clock is not None:
        reading = rfc3339(in_utc(clock, "clock"))
    material = await desk.blueprints.load(state)
    asked = replace(_call(desk, state, material, call, None), at=reading)
    stamp(response, state.head.sequence)
    found = await assembled(desk, state, material, asked, then=at is not None or clock is not None)
    return await _view(desk, state, asked, found)


@router.post("/v1/sessions/{session}/window", summary="What a call would see if this were said")
async def try_window(
    session: str, tenant: Tenant, desk: AtDesk, response: Response, form: TryForm
) -> WindowView:
    """Assemble a call for a hypothetical turn; nothing is written and no model is called."""
    state = await desk.sessions.load_open(tenant, session)
    material = await desk.blueprints.load(state)
    supposed = _supposed(desk, state, material, form)
    asked = _call(desk, supposed.state, material, form.call, form.model)
    if form.budget is not None:
        material = with_budget(material, asked.kind, form.budget)
    stamp(response, state.head.sequence)
    found = await assembled(desk, supposed.state, material, asked, supposed)
    return await _view(desk, state, asked, found)


async def _moment(
    desk: Desk, tenant: str, session: str, at: int | None
) -> tuple[SessionState, str]:
    """Return a state and the clock reading that belongs to it."""
    present = await desk.sessions.load_open(tenant, session)
    if at is None:
        return present, rfc3339(desk.sessions.clock())
    moment = await desk.past.moment(tenant, session, at)
    return await _pinned_since(desk, moment.after, present), moment.recorded.envelope.time


async def _pinned_since(desk: Desk, state: SessionState, later: SessionState) -> SessionState:
    """Add the prompts and tools that were pinned later, before the session moved to a new version.
    """
    while later.attributes_in > state.attributes_in:
        moved = await desk.past.moment(state.tenant, state.session, later.attributes_in)
        if moved.before is None:
            return state
        later = moved.before
    prompts, tools = {**later.prompts, **state.prompts}, {**later.tools, **state.tools}
    return replace(state, prompts=prompts, tools=tools)


def _supposed(desk: Desk, state: SessionState, material: Material, form: TryForm) -> Supposed:
    blueprint = material.blueprint
    inputs = checked_values(blueprint.inputs, form.inputs, "inputs")
    command = SubmitTurn(form.text, blueprint.policies, material.phases, inputs)
    return supposing(state, command, desk.sessions.clock())


def _call(
    desk: Desk, state: SessionState, material: Material, kind: str | None, model: str | None
) -> Call:
    blueprint = material.blueprint
    kind = kind or material.call_kind(state)
    if kind not in blueprint.calls:
        fix = instead_of(kind[:80], blueprint.calls)
        raise Refused("unknown-kind", f"there is no call {kind[:80]!r}", field="call", fix=fix)
    asked = model or material.model(state, desk.settings.model)
    return Call(kind, asked, provider_of(asked), rfc3339(desk.sessions.clock()))


async def _view(desk: Desk, state: SessionState, asked: Call, found: Assembled) -> WindowView:
    tokens = found.manifest.tokens
    usage = Usage(known="estimated", input_tokens=tokens, output_tokens=0)
    return WindowView(
        session=state.session,
        sequence=state.head.sequence,
        call=asked.kind,
        model=asked.model,
        messages=tuple(MessageView.model_validate(said) for said in found.request.messages),
        tools=found.request.tools,
        manifest=found.manifest,
        cost=cost_of(asked.model, usage, await desk.prices.table()),
    )
