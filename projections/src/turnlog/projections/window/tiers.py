"""Steps on layers of segments: a tier less for all, an item less, other segments instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from turnlog.projections.blueprint.ladder import DropLowest, LowerTier, Replace
from turnlog.projections.window.pieces import Block, Piece, stood
from turnlog.projections.window.segments import HIDDEN


def lowered(block: Block, step: LowerTier) -> Block:
    """Take the highest tier from every item that has it and a lower one besides."""
    del step
    tiered = [pieces for pieces in _items(block) if len(_tiers(pieces)) > 1]
    highest = max((max(_tiers(pieces)) for pieces in tiered), default=None)
    gone = [each for pieces in tiered for each in pieces if each.segment.tier == highest]
    return block.without(gone, "lower_tier")


def without_lowest(block: Block, step: DropLowest) -> Block:
    """Take out the item of the lowest priority, unless nothing outranks it."""
    ranks = _ranks(block, step.order)
    items = [(ranks[_place(pieces[0])], pieces) for pieces in _items(block)]
    standing = {rank for rank, _ in items}
    if len(standing) < 2:  # noqa: PLR2004 - nobody outranks anybody
        return block
    gone = next(pieces for rank, pieces in reversed(items) if rank == min(standing))
    return block.without(gone, "drop_lowest")


def replaced(block: Block, step: Replace) -> Block:
    """Let the segments of one type stand for all others of their items."""
    shown = {_place(piece) for piece in block.standing}

    def change(piece: Piece) -> Piece:
        if _place(piece) not in shown:
            return piece
        if piece.segment.type == step.with_.type and piece.rule != HIDDEN:
            return replace(stood(piece, piece.whole, block.form), rule="replace")
        return piece.out("replace") if piece.text else piece

    return replace(block, pieces=tuple(map(change, block.pieces)))


def _items(block: Block) -> list[list[Piece]]:
    """Give the pieces that stand, item by item."""
    items: dict[int, list[Piece]] = {}
    for piece in block.standing:
        items.setdefault(_place(piece), []).append(piece)
    return list(items.values())


def _place(piece: Piece) -> int:
    """Tell items apart; a layer without items is one."""
    return piece.item.place if piece.item else 0


def _tiers(pieces: Sequence[Piece]) -> set[int]:
    return {piece.segment.tier for piece in pieces}


def _ranks(block: Block, order: Sequence[str]) -> dict[int, int]:
    """Rank every item by the best of its segments, whether or not that still stands."""
    ranks: dict[int, int] = {}
    for piece in block.pieces:
        if piece.source:
            priority = piece.segment.priority
            rank = order.index(priority) if priority in order else 0
            ranks[_place(piece)] = max(rank, ranks.get(_place(piece), 0))
    return ranks
