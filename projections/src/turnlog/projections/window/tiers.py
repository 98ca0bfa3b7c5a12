from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from turnlog.projections.blueprint.ladder import DropLowestPriority, LowerSegmentTier, ReplaceSegments
from turnlog.projections.window.pieces import LayerBlock, LayerPiece, include_text
from turnlog.projections.window.segments import TIER_RULE


def lower_tier(block: LayerBlock, step: LowerSegmentTier) -> LayerBlock:
    """Drop the highest tier of every item that also has a lower one."""
    del step
    tiered = [pieces for pieces in _group_by_item(block) if len(_collect_tiers(pieces)) > 1]
    highest = max((max(_collect_tiers(pieces)) for pieces in tiered), default=None)
    gone = [each for pieces in tiered for each in pieces if each.segment.tier == highest]
    return block.drop_pieces(gone, "lower_tier")


def drop_lowest(block: LayerBlock, step: DropLowestPriority) -> LayerBlock:
    """Drop the item of the lowest priority, unless all priorities are equal."""
    ranks = _rank_items(block, step.order)
    items = [(ranks[_get_item_position(pieces[0])], pieces) for pieces in _group_by_item(block)]
    standing = {rank for rank, _ in items}
    if len(standing) < 2:  # noqa: PLR2004 - nobody outranks anybody
        return block
    gone = next(pieces for rank, pieces in reversed(items) if rank == min(standing))
    return block.drop_pieces(gone, "drop_lowest")


def replace_segments(block: LayerBlock, step: ReplaceSegments) -> LayerBlock:
    """Replace the segments of each item by those of one type."""
    shown = {_get_item_position(piece) for piece in block.included_pieces}

    def change(piece: LayerPiece) -> LayerPiece:
        if _get_item_position(piece) not in shown:
            return piece
        if piece.segment.type == step.with_.type and piece.rule != TIER_RULE:
            return replace(include_text(piece, piece.full_text, block.form), rule="replace")
        return piece.drop_text("replace") if piece.text else piece

    return replace(block, pieces=tuple(map(change, block.pieces)))


def _group_by_item(block: LayerBlock) -> list[list[LayerPiece]]:
    """Return the included pieces, grouped by item."""
    items: dict[int, list[LayerPiece]] = {}
    for piece in block.included_pieces:
        items.setdefault(_get_item_position(piece), []).append(piece)
    return list(items.values())


def _get_item_position(piece: LayerPiece) -> int:
    """Return the item's position; a layer without items counts as one item."""
    return piece.item.place if piece.item else 0


def _collect_tiers(pieces: Sequence[LayerPiece]) -> set[int]:
    return {piece.segment.tier for piece in pieces}


def _rank_items(block: LayerBlock, order: Sequence[str]) -> dict[int, int]:
    """Rank every item by its best segment, included or not."""
    ranks: dict[int, int] = {}
    for piece in block.pieces:
        if piece.source:
            priority = piece.segment.priority
            rank = order.index(priority) if priority in order else 0
            ranks[_get_item_position(piece)] = max(rank, ranks.get(_get_item_position(piece), 0))
    return ranks
