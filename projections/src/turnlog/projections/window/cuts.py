from __future__ import annotations

from turnlog.projections.blueprint.ladder import CompressLayer, DropLayer, TrimLayer
from turnlog.projections.window.pieces import LayerBlock, LayerPiece
from turnlog.projections.window.sentences import truncate_text


def trim_block(block: LayerBlock, step: TrimLayer) -> LayerBlock:
    """Shorten each piece to the first listed length that is shorter than it is now."""

    def change(piece: LayerPiece) -> LayerPiece:
        held = piece.cut.to if piece.cut else len(piece.full_text)
        most = next((chars for chars in step.chars if chars < held), None)
        if most is None:
            return piece
        text = truncate_text(piece.full_text, most, step.at)
        return block.shorten_piece(piece, text, "trimmed", f"trim {most}")

    return block.map_pieces(change)


def compress_block(block: LayerBlock, step: CompressLayer) -> LayerBlock:
    """Shorten each piece to its first sentences."""

    def change(piece: LayerPiece) -> LayerPiece:
        if len(piece.full_text) <= step.chars or piece.treatment == "compressed":
            return piece
        text = truncate_text(piece.full_text, step.chars, "sentence")
        return block.shorten_piece(piece, text, "compressed", f"compress {step.chars}")

    return block.map_pieces(change)


def drop_block(block: LayerBlock, step: DropLayer) -> LayerBlock:
    """Leave out the whole layer."""
    del step
    return block.drop_pieces(block.included_pieces, "drop")
