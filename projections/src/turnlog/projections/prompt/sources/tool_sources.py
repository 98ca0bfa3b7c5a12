"""Tools in a prompt: tools offered to the model, and layers that describe tools.

A model is offered the tool that ends a phase, the tools of servers, and the children of a
coordinator. A server's tool is a blob that the session is pinned to, so the manifest refers to it.
A tool layer has two texts, full descriptions and names, and includes one of them; the rule of its
parts says why. Offered tools cannot be shortened to names, since a model must see what it may call.
The argument of the tool that ends a phase is a signal that the phase offers now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, assert_never

from pydantic import JsonValue

from turnlog.events.content import encode_canonical
from turnlog.events.model.manifest import BlobSource, BlueprintTextSource
from turnlog.events.model.tool_events import ToolPin, ToolsSnapshotted
from turnlog.projections.blueprint.schema.call_specs import (
    QUERY_ARGUMENT,
    MessageFormat,
    ProfileSpec,
)
from turnlog.projections.blueprint.schema.layer_specs import PromptsLayer, ToolsLayer
from turnlog.projections.blueprint.schema.phase_specs import TRANSITION_TOOL
from turnlog.projections.prompt.deferred_part import DeferredPart, build_filled, combine_parts
from turnlog.projections.prompt.sources.layer_content import LayerBlock, LayerPiece, include_text
from turnlog.projections.prompt.sources.offered_tools import (
    OfferedTool,
    ToolSchema,
    get_tool_name,
    parse_tool,
)
from turnlog.projections.prompt.sources.retrieved_layers import describe_adaptation
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.next_call import find_current_step
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.tool_disclosure import find_disclosure_reason

_TOOL_LAYERS: Final = (ToolsLayer, PromptsLayer)


def plan_offered_tools(
    material: SessionMaterial, state: SessionState, kind: str
) -> DeferredPart[tuple[OfferedTool, ...]]:
    """Plan the tools of a call."""
    return combine_parts(
        (
            *map(build_filled, build_transition_tools(material, state, kind)),
            *map(build_filled, _build_child_tools(material, state, kind)),
            *(_plan_pinned_tool(n, pin) for n, pin in _list_pinned_tools(material, state, kind)),
        )
    )


def _list_pinned_tools(
    material: SessionMaterial, state: SessionState, kind: str
) -> Iterator[tuple[str, ToolPin]]:
    """Yield the server tools that a call offers, by the names that the model sees."""
    words, taken = material.blueprint.calls[kind].tools, find_tool_snapshot(material, state)
    if taken is None or not {"all", "for_step"} & set(words):
        return
    step = find_current_step(state.open) if "all" not in words else None
    for name, pin in taken.tools.items():
        if step is None or not step.tools or name in step.tools:
            yield name, pin


def has_tools(material: SessionMaterial, state: SessionState) -> bool:
    """Return whether calls of the session's profile offer or describe server tools."""
    blueprint = material.blueprint
    profile = blueprint.profiles[state.profile]
    if not profile.may_use_tools:
        return False
    if profile.program != "chat":
        return True
    layers = {
        layer
        for kind in blueprint.list_reply_calls(profile)
        for layer in blueprint.calls[kind].layers
    }
    layer_specs = (blueprint.layers.get(layer) for layer in layers)
    return any(isinstance(each, _TOOL_LAYERS) for each in layer_specs)


def find_tool_snapshot(material: SessionMaterial, state: SessionState) -> ToolsSnapshotted | None:
    """Return the tool snapshot of the session's profile; None if the profile uses no tools."""
    profile = material.blueprint.profiles.get(state.profile)
    return None if profile and profile.tools == "none" else state.tools.get(state.profile)


def _plan_pinned_tool(name: str, pin: ToolPin) -> DeferredPart[OfferedTool]:
    source = BlobSource(digest=pin.digest, path=f"{pin.server}/{pin.tool}")
    return DeferredPart(
        (pin.digest,),
        lambda texts: OfferedTool(
            tool=parse_tool(texts[0]), name=name, text=texts[0], source=source
        ),
    )


_QUERY_DESCRIPTION: Final = (
    "What is asked of it, complete in itself: it reads this text and what it was asked before, and "
    "nothing else of this conversation."
)

_HANDED_DESCRIPTION: Final = (
    "What is asked of it, complete in itself: it reads this text, what it was asked before, and {} "
    "of this turn as sent, which is not to be repeated here, and nothing else of this conversation."
)


def _build_child_tools(
    material: SessionMaterial, state: SessionState, kind: str
) -> Iterator[OfferedTool]:
    """Yield a tool for each child profile of a coordinator, described by the profile's summary."""
    blueprint = material.blueprint
    if "children" not in blueprint.calls[kind].tools:
        return
    for name in blueprint.profiles[state.profile].children:
        tool = _build_child_schema(name, blueprint.profiles[name])
        source = BlueprintTextSource(text=encode_canonical(tool), of=(f"profiles.{name}.summary",))
        yield OfferedTool(tool=tool, name=name, text=source.text, source=source)


def _build_child_schema(name: str, profile: ProfileSpec) -> ToolSchema:
    given = [f"the input `{each}`" for each in profile.parent_inputs]
    given += ["the pictures and files"] if profile.parent_parts else []
    handed = " and ".join(given)
    description = _HANDED_DESCRIPTION.format(handed) if handed else _QUERY_DESCRIPTION
    query: JsonValue = {"type": "string", "description": description}
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": profile.summary,
            "parameters": {
                "type": "object",
                "properties": {QUERY_ARGUMENT: query},
                "required": [QUERY_ARGUMENT],
            },
        },
    }


CONDENSE_RULE: Final = "condense_tools"
"""The rule of tools that a trim step reduced to their names."""

NAMES_RULE: Final = "names"
"""The rule of tools shown by name because they were described in full before."""

FULL_TEXT_RULE: Final = "told in full"
"""Why the names are left out."""


def _list_tool_texts(
    layer: ToolsLayer | PromptsLayer, material: SessionMaterial, state: SessionState
) -> tuple[BlobSource, ...]:
    """Return the sources that a layer may be rendered from; empty before they are known."""
    taken = find_tool_snapshot(material, state)
    if taken is None:
        return ()
    match layer:
        case ToolsLayer():
            return _build_full_source(taken), _build_names_source(taken)
        case PromptsLayer():
            text, path = taken.prompts_text, f"prompts of {taken.profile}"
            return (BlobSource(digest=text, path=path),) if text else ()
        case _ as never:
            assert_never(never)


def _build_full_source(taken: ToolsSnapshotted) -> BlobSource:
    return BlobSource(digest=taken.full, path=f"tools of {taken.profile}, in full")


def _build_names_source(taken: ToolsSnapshotted) -> BlobSource:
    return BlobSource(digest=taken.names, path=f"tools of {taken.profile}, by name")


def plan_tool_pieces(
    layer: ToolsLayer | PromptsLayer,
    material: SessionMaterial,
    state: SessionState,
    form: MessageFormat,
) -> DeferredPart[tuple[LayerPiece, ...]]:
    """Plan the pieces of a tool or prompt layer."""
    sources = _list_tool_texts(layer, material, state)
    named = layer.adapt if isinstance(layer, ToolsLayer) else None
    adapts = describe_adaptation(material, state, named)
    return DeferredPart(
        tuple(source.digest for source in sources),
        lambda texts: _build_tool_pieces(
            layer=layer,
            state=state,
            pieces=[
                LayerPiece(source=source, full_text=text)
                for source, text in zip(sources, texts, strict=True)
            ],
            form=form,
            adapts=adapts,
        ),
    )


def _build_tool_pieces(
    layer: ToolsLayer | PromptsLayer,
    state: SessionState,
    pieces: Sequence[LayerPiece],
    form: MessageFormat,
    adapts: str | None,
) -> tuple[LayerPiece, ...]:
    if isinstance(layer, PromptsLayer):
        return tuple(
            include_text(piece, piece.full_text, form) for piece in pieces if piece.full_text
        )
    match pieces:
        case [full, names] if full.full_text and adapts:
            return _swap_to_names(full, names, adapts, form)
        case [full, names] if full.full_text:
            return _choose_disclosure(layer=layer, state=state, full=full, names=names, form=form)
        case _:
            return ()


def _choose_disclosure(
    layer: ToolsLayer, state: SessionState, full: LayerPiece, names: LayerPiece, form: MessageFormat
) -> tuple[LayerPiece, ...]:
    reason = "always" if layer.full == "always" else find_disclosure_reason(state)
    if reason is None:
        return _swap_to_names(full, names, NAMES_RULE, form)
    included = replace(include_text(full, full.full_text, form), rule=f"full {reason}")
    return included, replace(names, rule=FULL_TEXT_RULE)


def _swap_to_names(
    full: LayerPiece, names: LayerPiece, rule: str, form: MessageFormat
) -> tuple[LayerPiece, ...]:
    included = replace(include_text(names, names.full_text, form), treatment="condensed", rule=rule)
    return replace(full.drop_text(rule), treatment="condensed"), included


def condense_tools(block: LayerBlock) -> LayerBlock:
    """Replace full tool descriptions by names; return any other layer unchanged."""
    match block.pieces:
        case (full, names) if full.text and names.rule == FULL_TEXT_RULE:
            return replace(block, pieces=_swap_to_names(full, names, CONDENSE_RULE, block.form))
        case _:
            return block


def build_transition_tools(
    material: SessionMaterial, state: SessionState, kind: str
) -> Iterator[OfferedTool]:
    """Yield the tool that ends the phase, unless the phase may not end yet."""
    phases = material.phases
    if phases is None or TRANSITION_TOOL not in material.blueprint.calls[kind].tools:
        return
    if signals := phases.list_signals(state.phase, state.exchanges):
        tool = _build_transition_schema(
            {signal: phases.get_signal_meaning(state.phase, signal) for signal in signals}
        )
        text = encode_canonical(tool)
        source = BlueprintTextSource(text=text, of=("cartridge.phases",))
        yield OfferedTool(tool=tool, name=get_tool_name(tool), text=text, source=source)


def _build_transition_schema(meanings: Mapping[str, str]) -> ToolSchema:
    """Return the tool with what each signal means, for those that have a meaning."""
    lines = [f"{signal}: {meaning}" for signal, meaning in meanings.items() if meaning]
    signal: JsonValue = {
        "type": "string",
        "enum": list(meanings),
        "description": "\n".join(["How the dialogue has gone.", *lines]),
    }
    return {
        "type": "function",
        "function": {
            "name": TRANSITION_TOOL,
            "description": "End this phase of the session, when its purpose is reached.",
            "parameters": {
                "type": "object",
                "properties": {"signal": signal},
                "required": ["signal"],
            },
        },
    }
