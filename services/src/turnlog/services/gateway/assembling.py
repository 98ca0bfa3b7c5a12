from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from turnlog.events.content import digest_of
from turnlog.events.prompt import PromptFile
from turnlog.projections.blueprint.overriding import prompt_layers
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.assemble import assemble, needs
from turnlog.projections.window.call import Assembled, Call
from turnlog.projections.window.material import Material
from turnlog.projections.window.supposed import Supposed
from turnlog.services.gateway.desk import Desk
from turnlog.services.runtime.prompt_files import Found


async def assembled(
    desk: Desk,
    state: SessionState,
    material: Material,
    call: Call,
    supposed: Supposed | None = None,
    *,
    then: bool = False,
) -> Assembled:
    """Assemble a call; with a hypothetical turn, from the state and texts of that turn.

    Prompt files that the session has not pinned yet are read as they are now, because its first
    call would pin those. With `as_recorded`, the call gets the segment library of its time.
    """
    files = _unpinned(desk, state, material.blueprint, call.provider)
    state = _with_prompts(state, call.provider, files)
    call = await desk.gathering.fresh(material, state, call, then=then)
    asked = needs(material, state, call)
    if asked.older:
        upto = supposed.after if supposed else state.head.sequence
        state = await _whole(desk, state, upto)
        asked = needs(material, state, call)
    read = {digest_of(text): text for _, text in files.values()}
    texts = await desk.sessions.texts.fetch(
        state.tenant,
        replace(
            asked,
            blobs=tuple(digest for digest in asked.blobs if digest not in read),
            said=tuple(said for said in asked.said if not supposed or said != supposed.said),
        ),
    )
    texts = replace(texts, blobs={**texts.blobs, **read})
    return assemble(material, state, call, supposed.told(texts) if supposed else texts)


async def _whole(desk: Desk, state: SessionState, upto: int) -> SessionState:
    """Return the state with all turns, including those that it holds only in aggregate."""
    whole = await desk.sessions.load_whole(state.tenant, state.session, upto)
    return replace(state, turns=whole.turns, earlier=whole.earlier, reach=whole.reach)


def _unpinned(
    desk: Desk, state: SessionState, blueprint: Blueprint, provider: str
) -> Mapping[str, Found]:
    """Return the prompt files that the session's first call would pin; none after that call."""
    layers = prompt_layers(blueprint)
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
