from __future__ import annotations

from turnlog.projections.blueprint.ladder import Compress, Drop, Trim
from turnlog.projections.window.pieces import Block, Piece
from turnlog.projections.window.sentences import beginning


def trimmed(block: Block, step: Trim) -> Block:
    """Shorten each piece to the first listed length that is shorter than it is now."""

    def change(piece: Piece) -> Piece:
        held = piece.cut.to if piece.cut else len(piece.whole)
        most = next((chars for chars in step.chars if chars < held), None)
        if most is None:
            return piece
        text = beginning(piece.whole, most, step.at)
        return block.shortened(piece, text, "trimmed", f"trim {most}")

    return block.changed(change)


def compressed(block: Block, step: Compress) -> Block:
    """Shorten each piece to its first sentences."""

    def change(piece: Piece) -> Piece:
        if len(piece.whole) <= step.chars or piece.treatment == "compressed":
            return piece
        text = beginning(piece.whole, step.chars, "sentence")
        return block.shortened(piece, text, "compressed", f"compress {step.chars}")

    return block.changed(change)


def dropped(block: Block, step: Drop) -> Block:
    """Leave out the whole layer."""
    del step
    return block.without(block.standing, "drop")
