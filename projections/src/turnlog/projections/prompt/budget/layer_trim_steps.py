"""Trim steps on the pieces of one layer: shorten texts, and drop or replace segments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from pydantic import JsonValue

from turnlog.events.model.manifest import BlueprintTextSource, KnowledgeSource, TextTruncation
from turnlog.projections.blueprint.schema.budget_specs import (
    CompressLayer,
    CondenseResults,
    CutCue,
    DropLowestPriority,
    LimitHits,
    ReplaceSegments,
    TrimLayer,
    resolve_limit,
)
from turnlog.projections.blueprint.sentence_ends import find_last_sentence_end
from turnlog.projections.prompt.assembly_inputs import has_every_script
from turnlog.projections.prompt.sources.layer_content import LayerBlock, LayerPiece, include_text
from turnlog.projections.prompt.sources.segment_layers import TIER_RULE

FindSentenceEnd = Callable[[str, int], int]
"""Returns the end of the last sentence within so many characters of a text, or 0."""

_CLOSING: Final = r"""["'\u201d\u2019\u00bb)\]]*"""

_WIDE_CLOSING: Final = r"""["'\u201d\u2019\u00bb\u300d\u300f\uff09)\]]*"""

_EARLIER_SENTENCE: Final = re.compile(
    # A lower-case letter after it continues the sentence: `e.g. this`.
    rf"(?<![.!?\u2026])[.!?\u2026]++{_CLOSING}(?=\s+[^a-z\s]|\s*\Z)"
    # East Asian sentence ends need no space after them.
    rf"|[\u3002\uff01\uff1f\uff61]++{_WIDE_CLOSING}"
    # The end of a line.
    r"|(?<=\S)(?=\s*\n)"
)
"""The rule of assemblers before version 7, which knows no other scripts."""

_WORD: Final = re.compile(r"(?<=\S)(?=\s)")


def select_sentence_rule(assembler: int) -> FindSentenceEnd:
    """Return how a version of the assembler finds the ends of sentences."""
    if has_every_script(assembler):
        return find_last_sentence_end
    return partial(_find_last_end, _EARLIER_SENTENCE)


def _find_last_end(pattern: re.Pattern[str], text: str, most: int) -> int:
    """Return the end of the last match within `most` characters, or 0."""
    # The next characters decide whether the last sentence or word is complete.
    found = (each.end() for each in pattern.finditer(text[: most + 2]))
    return max((end for end in found if end <= most), default=0)


def truncate_text(text: str, most: int, find_end: FindSentenceEnd | None = None) -> str:
    """Return the longest beginning of `most` characters that ends with a sentence or word.

    If there is no such end the next smaller unit is used: a sentence, a word, a character. Without
    `find_end` it is a word.
    """
    if len(text) <= most:
        return text
    head = text[:most]
    end = (find_end(text, most) if find_end else 0) or _find_last_end(_WORD, text, most) or most
    return head[:end].rstrip() or head


Inputs = Mapping[str, JsonValue]
"""The inputs of a turn, by which it may set lengths."""


def trim_block(
    block: LayerBlock, step: TrimLayer, inputs: Inputs, find_end: FindSentenceEnd
) -> LayerBlock:
    """Shorten each piece to the first listed length that is shorter than it is now."""
    lengths = [resolve_limit(chars, inputs) for chars in step.chars]

    def change(piece: LayerPiece) -> LayerPiece:
        current_length = piece.cut.to if piece.cut else len(piece.full_text)
        most = next((chars for chars in lengths if chars < current_length), None)
        if most is None:
            return piece
        text = truncate_text(piece.full_text, most, find_end if step.at == "sentence" else None)
        return block.shorten_piece(piece, text, "trimmed", f"trim {most}")

    return block.map_pieces(change)


def compress_block(
    block: LayerBlock, step: CompressLayer, inputs: Inputs, over: int, find_end: FindSentenceEnd
) -> LayerBlock:
    """Shorten each piece to its first sentences, with the cue of the step for what is cut.

    `over` is the number of excess tokens, and the fewest characters that have to go.
    """
    most = resolve_limit(step.chars, inputs)
    if isinstance(step.cue, CutCue):
        return _compress_to_cue(
            block=block, most=most, cue=step.cue.text, over=over, find_end=find_end
        )

    def change(piece: LayerPiece) -> LayerPiece:
        if len(piece.full_text) <= most or piece.treatment == "compressed":
            return piece
        text = truncate_text(piece.full_text, most, find_end)
        return block.shorten_piece(piece, text, "compressed", f"compress {most}")

    return block.map_pieces(change)


CUE_RULE: Final = "cue"
"""The rule of a line that replaces what `compress` cut."""


def _compress_to_cue(
    block: LayerBlock, most: int, cue: str, over: int, find_end: FindSentenceEnd
) -> LayerBlock:
    """Cut each piece to fewer sentences, and put the cue after it."""
    pieces: list[LayerPiece] = []
    for piece in block.pieces:
        if piece.rule == CUE_RULE:
            continue
        left = _cut_sentences(
            block=block, piece=piece, most=most, cue=cue, over=over, find_end=find_end
        )
        line = LayerPiece(
            source=BlueprintTextSource(text=cue), full_text=cue, rule=CUE_RULE, item=piece.item
        )
        is_cut = left.treatment == "compressed"
        pieces += (left, include_text(line, cue, block.form)) if is_cut else (left,)
    return replace(block, pieces=tuple(pieces))


def _cut_sentences(
    block: LayerBlock,
    piece: LayerPiece,
    most: int,
    cue: str,
    over: int,
    find_end: FindSentenceEnd,
) -> LayerPiece:
    """Return a piece with fewer sentences, without any, or as it is if the cue is no shorter."""
    current_length = piece.cut.to if piece.cut else len(piece.full_text)
    is_cut = piece.treatment == "compressed"
    if not piece.text or (current_length <= len(cue) and not is_cut):
        return piece
    room = current_length - over - (0 if is_cut else len(block.form.segments_between + cue))
    kept = _find_beginning(piece.full_text, most, min(most, room), find_end)
    rule = f"compress {most}"
    if kept:
        return block.shorten_piece(piece, kept, "compressed", rule)
    cut = TextTruncation(of=len(piece.full_text), to=0)
    return replace(piece.drop_text(rule), treatment="compressed", cut=cut)


def _find_beginning(text: str, most: int, room: int, find_end: FindSentenceEnd) -> str:
    """Return the whole sentences that fit the room; words if even `most` has no whole sentence."""
    if room <= 0:
        return ""
    end = find_end(text, room)
    if end or find_end(text, most):
        return text[:end].rstrip()
    return truncate_text(text, room)


def drop_block(block: LayerBlock) -> LayerBlock:
    """Leave out the whole layer."""
    return block.drop_pieces(block.included_pieces, "drop")


def lower_tier(block: LayerBlock) -> LayerBlock:
    """Drop the highest tier of every item that also has a lower one."""
    tiered = [pieces for pieces in _group_by_item(block) if len(_collect_tiers(pieces)) > 1]
    highest = max((max(_collect_tiers(pieces)) for pieces in tiered), default=None)
    dropped = [each for pieces in tiered for each in pieces if each.segment.tier == highest]
    return block.drop_pieces(dropped, "lower_tier")


def drop_lowest(block: LayerBlock, step: DropLowestPriority) -> LayerBlock:
    """Drop the item of the lowest priority, unless all priorities are equal."""
    ranks = _rank_items(block, step.order)
    items = [(ranks[_get_item_position(pieces[0])], pieces) for pieces in _group_by_item(block)]
    included_ranks = {rank for rank, _ in items}
    if len(included_ranks) < 2:  # noqa: PLR2004 - nobody outranks anybody
        return block
    dropped = next(pieces for rank, pieces in reversed(items) if rank == min(included_ranks))
    return block.drop_pieces(dropped, "drop_lowest")


def replace_segments(block: LayerBlock, step: ReplaceSegments) -> LayerBlock:
    """Replace the segments of each item by those of one type."""
    included_positions = {_get_item_position(piece) for piece in block.included_pieces}

    def change(piece: LayerPiece) -> LayerPiece:
        if _get_item_position(piece) not in included_positions:
            return piece
        if piece.segment.type == step.with_.type and piece.rule != TIER_RULE:
            return replace(include_text(piece, piece.full_text, block.form), rule="replace")
        return piece.drop_text("replace") if piece.text else piece

    return replace(block, pieces=tuple(map(change, block.pieces)))


_SAMPLE_CHARACTERS: Final = 240
"""Maximum length of the sample of a tool result."""


def condense_results(block: LayerBlock, step: CondenseResults) -> LayerBlock:
    """Replace the longest tool result that has a shorter form of this kind."""
    rule = f"condense_results {step.to}"
    if step.to == "nothing":
        return block.drop_pieces(block.included_pieces[:1], rule)
    shortened = {
        place: shorter
        for place, piece in enumerate(block.pieces)
        if piece.text and (shorter := _shorten_result(block, piece, step, rule))
    }
    if not shortened:
        return block
    longest = max(shortened, key=lambda place: len(block.pieces[place].text))
    pieces = (*block.pieces[:longest], shortened[longest], *block.pieces[longest + 1 :])
    return replace(block, pieces=pieces)


def _shorten_result(
    block: LayerBlock, piece: LayerPiece, step: CondenseResults, rule: str
) -> LayerPiece | None:
    """Return a result in a shorter form; None if that would not be shorter."""
    if step.to == "sample":
        if len(piece.text) <= _SAMPLE_CHARACTERS:
            return None
        sample = truncate_text(piece.full_text, _SAMPLE_CHARACTERS)
        if len(sample) < _SAMPLE_CHARACTERS // 2:  # It has hardly any words
            sample = piece.full_text[:_SAMPLE_CHARACTERS]
        return block.shorten_piece(piece, sample, "condensed", rule)
    fields = {"summary": "summary", "digest": "brief"}
    for place, other in enumerate(piece.shorter):
        if other.source_field == fields[step.to] and len(other.full_text) < len(piece.text):
            shown = include_text(other, other.full_text, block.form)
            rest = piece.shorter[place + 1 :]
            return replace(shown, treatment="condensed", rule=rule, shorter=rest)
    return None


def has_hits(block: LayerBlock) -> bool:
    """Return whether a layer includes entries that were retrieved."""
    return any(isinstance(piece.source, KnowledgeSource) for piece in block.included_pieces)


def limit_hits(block: LayerBlock, step: LimitHits) -> LayerBlock:
    """Leave out the worst retrieved entry, unless only the allowed number is left."""
    hits = [each for each in block.included_pieces if isinstance(each.source, KnowledgeSource)]
    return block.drop_pieces(hits[-1:], f"limit_hits {step.k}") if len(hits) > step.k else block


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
