from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from turnlog.projections.blueprint.ladder import DropLowest, LowerTier, Replace
from turnlog.projections.window.pieces import Block, Piece, stood
from turnlog.projections.window.segments import HIDDEN


def lowered(block: Block, step: LowerTier) -> Block:
    """Drop the highest tier of every item that also has a lower one."""
    del step
    tiered = [pieces for pieces in _items(block) if len(_tiers(pieces)) > 1]
    highest = max((max(_tiers(pieces)) for pieces in tiered), default=None)
    gone = [each for pieces in tiered for each in pieces if each.segment.tier == highest]
    return block.without(gone, "lower_tier")


def without_lowest(block: Block, step: DropLowest) -> Block:
    """Drop the item of the lowest priority, unless all priorities are equal."""
    ranks = _ranks(block, step.order)
    items = [(ranks[_place(pieces[0])], pieces) for pieces in _items(block)]
    standing = {rank for rank, _ in items}
    if len(standing) < 2:  # noqa: PLR2004 - nobody outranks anybody
        return block
    gone = next(pieces for rank, pieces in reversed(items) if rank == min(standing))
    return block.without(gone, "drop_lowest")


def replaced(block: Block, step: Replace) -> Block:
    """Replace the segments of each item by those of one type."""
    shown = {_place(piece) for piece in block.standing}

    def change(piece: Piece) -> Piece:
        if _place(piece) not in shown:
            return piece
        if piece.segment.type == step.with_.type and piece.rule != HIDDEN:
            return replace(stood(piece, piece.whole, block.form), rule="replace")
        return piece.out("replace") if piece.text else piece

    return replace(block, pieces=tuple(map(change, block.pieces)))


def _items(block: Block) -> list[list[Piece]]:
    """Return the included pieces, grouped by item."""
    items: dict[int, list[Piece]] = {}
    for piece in block.standing:
        items.setdefault(_place(piece), []).append(piece)
    return list(items.values())


def _place(piece: Piece) -> int:
    """Return the item's position; a layer without items counts as one item."""
    return piece.item.place if piece.item else 0


def _tiers(pieces: Sequence[Piece]) -> set[int]:
    return {piece.segment.tier for piece in pieces}


def _ranks(block: Block, order: Sequence[str]) -> dict[int, int]:
    """Rank every item by its best segment, included or not."""
    ranks: dict[int, int] = {}
    for piece in block.pieces:
        if piece.source:
            priority = piece.segment.priority
            rank = order.index(priority) if priority in order else 0
            ranks[_place(piece)] = max(rank, ranks.get(_place(piece), 0))
    return ranks
