"""Windows over HTTP: what a call would see if it were made now, or had been made at a sequence.

Nothing is recorded and no model is asked. Prompt files that the session has not pinned yet are
read as they are now, since that is what its first call would do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Response

from turnlog.events.codec import rfc3339
from turnlog.events.content import digest_of
from turnlog.events.errors import Refused
from turnlog.events.prompt import PromptFile
from turnlog.projections.blueprint.faults import instead_of
from turnlog.projections.blueprint.layer import FileLayer
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.assemble import assemble, needs
from turnlog.projections.window.call import Assembled, Call, provider_of
from turnlog.projections.window.material import Material
from turnlog.services.gateway.desk import AtDesk, Desk, Tenant
from turnlog.services.gateway.headers import stamp
from turnlog.services.gateway.history import At, events_at
from turnlog.services.gateway.payloads.prompts import MessageView, WindowView
from turnlog.services.runtime.prompt_files import Found

router = APIRouter()


@router.get("/v1/sessions/{session}/window", summary="What a call would see")
async def show_window(
    session: str,
    tenant: Tenant,
    desk: AtDesk,
    response: Response,
    call: Annotated[str | None, Query(description="The kind of call; the profile's own")] = None,
    at: At = None,
) -> WindowView:
    """Assemble a call without making it, and give its prompt with the manifest."""
    state = await _state(desk, tenant, session, at)
    material = await desk.blueprints.load(state)
    asked = _call(desk, state, material, call)
    assembled = await _assembled(desk, state, material, asked)
    stamp(response, state.head.sequence)
    return WindowView(
        session=session,
        sequence=state.head.sequence,
        call=asked.kind,
        model=asked.model,
        messages=tuple(MessageView.model_validate(said) for said in assembled.request.messages),
        tools=assembled.request.tools,
        manifest=assembled.manifest,
    )


async def _state(desk: Desk, tenant: str, session: str, at: int | None) -> SessionState:
    if at is None:
        return await desk.sessions.load_open(tenant, session)
    state = fold(await events_at(desk, tenant, session, at))
    if state is None:
        raise Refused("unknown-session", "the session was never opened", field="session")
    return state


def _call(desk: Desk, state: SessionState, material: Material, kind: str | None) -> Call:
    blueprint = material.blueprint
    profile = blueprint.profiles[state.profile]
    kind = kind or material.call_kind(state)
    if kind not in blueprint.calls:
        fix = instead_of(kind[:80], blueprint.calls)
        raise Refused("unknown-kind", f"there is no call {kind[:80]!r}", field="call", fix=fix)
    model = desk.settings.model if profile.model == "default" else profile.model
    return Call(kind, model, provider_of(model), rfc3339(desk.sessions.clock()))


async def _assembled(desk: Desk, state: SessionState, material: Material, call: Call) -> Assembled:
    files = _unpinned(desk, state, material.blueprint, call.provider)
    state = _with_prompts(state, call.provider, files)
    call = await desk.gathering.fresh(material, state, call)
    asked = needs(material, state, call)
    if asked.older:
        state = await desk.sessions.load_whole(state.tenant, state.session, state.head.sequence)
        state = _with_prompts(state, call.provider, files)
        asked = needs(material, state, call)
    read = {digest_of(text): text for _, text in files.values()}
    stored = tuple(digest for digest in asked.blobs if digest not in read)
    texts = await desk.sessions.texts.fetch(state.tenant, replace(asked, blobs=stored))
    return assemble(material, state, call, replace(texts, blobs={**texts.blobs, **read}))


def _unpinned(
    desk: Desk, state: SessionState, blueprint: Blueprint, provider: str
) -> Mapping[str, Found]:
    """Read the prompt files that the session's first call would pin; none once they are."""
    layers = {
        name: layer for name, layer in blueprint.layers.items() if isinstance(layer, FileLayer)
    }
    if not layers or provider in state.prompts:
        return {}
    return desk.library.prompt_files(blueprint, layers, provider, state.attributes)


def _with_prompts(state: SessionState, provider: str, files: Mapping[str, Found]) -> SessionState:
    if not files:
        return state
    pinned = {
        name: PromptFile(digest=digest_of(text), path=path) for name, (path, text) in files.items()
    }
    return replace(state, prompts={**state.prompts, provider: pinned})
