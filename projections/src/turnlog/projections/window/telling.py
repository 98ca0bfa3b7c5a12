from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, assert_never

from turnlog.events.content import Digest
from turnlog.events.errors import Corrupt
from turnlog.events.manifest import FromBlob
from turnlog.events.tool import ToolsSnapshotted
from turnlog.projections.blueprint.form import Form
from turnlog.projections.blueprint.layer import PromptsLayer, ToolsLayer
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.telling import in_full
from turnlog.projections.window.material import Material
from turnlog.projections.window.pieces import Block, Piece, stood
from turnlog.projections.window.tools import tools_of

CONDENSE: Final = "condense_tools"
"""The rule of tools that a trim step reduced to their names."""
NAMES: Final = "names"
"""The rule of tools shown by name because they were described in full before."""
IN_FULL: Final = "told in full"
"""Why the names are left out."""


def texts_told(
    layer: ToolsLayer | PromptsLayer, material: Material, state: SessionState
) -> tuple[FromBlob, ...]:
    """Return the sources that a layer may be rendered from; empty before they are known."""
    taken = tools_of(material, state)
    if taken is None:
        return ()
    match layer:
        case ToolsLayer():
            return _in_full(taken), _by_name(taken)
        case PromptsLayer():
            text, path = taken.prompts_text, f"prompts of {taken.profile}"
            return (FromBlob(digest=text, path=path),) if text else ()
        case _ as never:
            assert_never(never)


def _in_full(taken: ToolsSnapshotted) -> FromBlob:
    return FromBlob(digest=taken.full, path=f"tools of {taken.profile}, in full")


def _by_name(taken: ToolsSnapshotted) -> FromBlob:
    return FromBlob(digest=taken.names, path=f"tools of {taken.profile}, by name")


def told(
    layer: ToolsLayer | PromptsLayer,
    material: Material,
    state: SessionState,
    blobs: Mapping[Digest, str],
    form: Form,
) -> tuple[Piece, ...]:
    """Return the pieces of a tool or prompt layer; raises `Corrupt` for a missing text."""
    pieces = [Piece(source, _text(source, blobs)) for source in texts_told(layer, material, state)]
    if isinstance(layer, PromptsLayer):
        return tuple(stood(piece, piece.whole, form) for piece in pieces if piece.whole)
    match pieces:
        case [full, names] if full.whole:
            return _stands(layer, state, full, names, form)
        case _:
            return ()


def _stands(
    layer: ToolsLayer, state: SessionState, full: Piece, names: Piece, form: Form
) -> tuple[Piece, ...]:
    why = "always" if layer.full == "always" else in_full(state)
    if why is None:
        return _swapped(full, names, NAMES, form)
    stands = replace(stood(full, full.whole, form), rule=f"full {why}")
    return stands, replace(names, rule=IN_FULL)


def _swapped(full: Piece, names: Piece, rule: str, form: Form) -> tuple[Piece, ...]:
    shown = replace(stood(names, names.whole, form), treatment="condensed", rule=rule)
    return replace(full.out(rule), treatment="condensed"), shown


def condensed(block: Block) -> Block:
    """Replace full tool descriptions by names; return any other layer unchanged."""
    match block.pieces:
        case (full, names) if full.text and names.rule == IN_FULL:
            return replace(block, pieces=_swapped(full, names, CONDENSE, block.form))
        case _:
            return block


def _text(source: FromBlob, blobs: Mapping[Digest, str]) -> str:
    text = blobs.get(source.digest)
    if text is None:
        raise Corrupt(source.path, f"blob {source.digest} was not fetched")
    return text
