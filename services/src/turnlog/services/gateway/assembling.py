from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from turnlog.events.content import compute_digest
from turnlog.events.prompt import PromptFile
from turnlog.projections.blueprint.overriding import list_prompt_layers
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.assemble import assemble, find_prompt_needs
from turnlog.projections.window.call import AssembledPrompt, PromptCall
from turnlog.projections.window.material import SessionMaterial
from turnlog.projections.window.supposed import HypotheticalTurn
from turnlog.services.gateway.desk import GatewayDependencies
from turnlog.services.runtime.prompt_files import FoundPromptFile


async def assemble_call(
    deps: GatewayDependencies,
    state: SessionState,
    material: SessionMaterial,
    call: PromptCall,
    hypothetical: HypotheticalTurn | None = None,
    *,
    as_recorded: bool = False,
) -> AssembledPrompt:
    """Assemble a call; with a hypothetical turn, from the state and texts of that turn.

    Prompt files that the session has not pinned yet are read as they are now, because its first
    call would pin those. With `as_recorded`, the call gets the segment library of its time.
    """
    files = _read_unpinned_prompts(deps, state, material.blueprint, call.provider)
    state = _pin_prompts(state, call.provider, files)
    call = await deps.prompt_inputs.fill_call(material, state, call, at_call_time=as_recorded)
    asked = find_prompt_needs(material, state, call)
    if asked.needs_older_turns:
        upto = hypothetical.base_sequence if hypothetical else state.head.sequence
        state = await _load_all_turns(deps, state, upto)
        asked = find_prompt_needs(material, state, call)
    read = {compute_digest(text): text for _, text in files.values()}
    texts = await deps.sessions.texts.fetch_texts(
        state.tenant,
        replace(
            asked,
            blobs=tuple(digest for digest in asked.blobs if digest not in read),
            said=tuple(said for said in asked.text_refs if not hypothetical or said != hypothetical.text_ref),
        ),
    )
    texts = replace(texts, blobs={**texts.blobs, **read})
    return assemble(material, state, call, hypothetical.add_text(texts) if hypothetical else texts)


async def _load_all_turns(deps: GatewayDependencies, state: SessionState, upto: int) -> SessionState:
    """Return the state with all turns, including those that it holds only in aggregate."""
    whole = await deps.sessions.load_full_state(state.tenant, state.session, upto)
    return replace(state, turns=whole.turns, earlier=whole.earlier, reach=whole.reach)


def _read_unpinned_prompts(
    deps: GatewayDependencies, state: SessionState, blueprint: Blueprint, provider: str
) -> Mapping[str, FoundPromptFile]:
    """Return the prompt files that the session's first call would pin; none after that call."""
    layers = list_prompt_layers(blueprint)
    if not layers or provider in state.prompts:
        return {}
    return deps.blueprint_folders.read_prompt_files(blueprint, layers, provider, state.attributes)


def _pin_prompts(state: SessionState, provider: str, files: Mapping[str, FoundPromptFile]) -> SessionState:
    if not files:
        return state
    pinned = {
        name: PromptFile(digest=compute_digest(text), path=path) for name, (path, text) in files.items()
    }
    return replace(state, prompts={**state.prompts, provider: pinned})
