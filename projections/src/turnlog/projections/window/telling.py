from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, assert_never

from turnlog.events.content import Digest
from turnlog.events.errors import Corrupt
from turnlog.events.manifest import BlobSource
from turnlog.events.tool import ToolsSnapshotted
from turnlog.projections.blueprint.form import MessageFormat
from turnlog.projections.blueprint.layer import PromptsLayer, ToolsLayer
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.telling import find_disclosure_reason
from turnlog.projections.window.material import SessionMaterial
from turnlog.projections.window.pieces import LayerBlock, LayerPiece, include_text
from turnlog.projections.window.tools import find_tool_snapshot

CONDENSE_RULE: Final = "condense_tools"
"""The rule of tools that a trim step reduced to their names."""
NAMES_RULE: Final = "names"
"""The rule of tools shown by name because they were described in full before."""
FULL_TEXT_RULE: Final = "told in full"
"""Why the names are left out."""


def list_tool_texts(
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


def build_tool_pieces(
    layer: ToolsLayer | PromptsLayer,
    material: SessionMaterial,
    state: SessionState,
    blobs: Mapping[Digest, str],
    form: MessageFormat,
) -> tuple[LayerPiece, ...]:
    """Return the pieces of a tool or prompt layer; raises `Corrupt` for a missing text."""
    pieces = [LayerPiece(source, _get_blob_text(source, blobs)) for source in list_tool_texts(layer, material, state)]
    if isinstance(layer, PromptsLayer):
        return tuple(include_text(piece, piece.full_text, form) for piece in pieces if piece.full_text)
    match pieces:
        case [full, names] if full.full_text:
            return _choose_disclosure(layer, state, full, names, form)
        case _:
            return ()


def _choose_disclosure(
    layer: ToolsLayer, state: SessionState, full: LayerPiece, names: LayerPiece, form: MessageFormat
) -> tuple[LayerPiece, ...]:
    why = "always" if layer.full == "always" else find_disclosure_reason(state)
    if why is None:
        return _swap_to_names(full, names, NAMES_RULE, form)
    stands = replace(include_text(full, full.full_text, form), rule=f"full {why}")
    return stands, replace(names, rule=FULL_TEXT_RULE)


def _swap_to_names(full: LayerPiece, names: LayerPiece, rule: str, form: MessageFormat) -> tuple[LayerPiece, ...]:
    shown = replace(include_text(names, names.full_text, form), treatment="condensed", rule=rule)
    return replace(full.drop_text(rule), treatment="condensed"), shown


def condense_tools(block: LayerBlock) -> LayerBlock:
    """Replace full tool descriptions by names; return any other layer unchanged."""
    match block.pieces:
        case (full, names) if full.text and names.rule == FULL_TEXT_RULE:
            return replace(block, pieces=_swap_to_names(full, names, CONDENSE_RULE, block.form))
        case _:
            return block


def _get_blob_text(source: BlobSource, blobs: Mapping[Digest, str]) -> str:
    text = blobs.get(source.digest)
    if text is None:
        raise Corrupt(source.path, f"blob {source.digest} was not fetched")
    return text
