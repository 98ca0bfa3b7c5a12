"""Render a plan as messages, and each of its pieces as a part of the manifest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from turnlog.events.content import digest_of
from turnlog.events.manifest import FromEvent, FromResolved, FromTurns, Part, Treatment
from turnlog.projections.blueprint.components import HISTORY
from turnlog.projections.window.condensing import DUPLICATES
from turnlog.projections.window.counting import Counting
from turnlog.projections.window.history import OUT_OF_REACH, SUMMARISED, LeftOut
from turnlog.projections.window.pieces import Block, Piece
from turnlog.projections.window.plan import (
    HistorySlot,
    LayerSlot,
    Plan,
    Recap,
    Stretch,
    stretches,
)
from turnlog.projections.window.request import ChatMessage
from turnlog.projections.window.spoken import Exchange, run_digest

_SAID: Final = (FromEvent, FromResolved)
"""Sources that do not hold the digest of their text."""
_TREATMENTS: Final[dict[str, Treatment]] = {
    "drop_oldest_pairs": "dropped",
    OUT_OF_REACH: "dropped",
    DUPLICATES: "condensed",
    SUMMARISED: "summarised",
}
"""The treatment of turns that are excluded by a rule; any other rule means `absent`."""


def rendered(plan: Plan, counting: Counting) -> tuple[tuple[ChatMessage, ...], tuple[Part, ...]]:
    """Return the messages of a plan and its parts in order, excluded parts as well."""
    messages: list[ChatMessage] = []
    parts: list[Part] = []
    for slot in plan:
        if isinstance(slot, HistorySlot):
            parts += _history_parts(slot, len(messages))
            messages += [ChatMessage("system", slot.summed.text)] if slot.summed else []
            messages += [each for exchange in slot.exchanges for each in exchange.said.messages]
        else:
            standing = [(stretch, stretch.text) for stretch in stretches(slot)]
            parts += _layer_parts(slot, standing, len(messages), counting)
            text = "".join([text for _, text in standing])
            messages += [ChatMessage(slot.role, text)] if text else []
    return tuple(messages), tuple(parts)


def _layer_parts(
    slot: LayerSlot, standing: Sequence[tuple[Stretch, str]], place: int, counting: Counting
) -> Iterator[Part]:
    tokens = counting.shares([text for _, text in standing])
    shown = {
        id(stretch.piece): _standing(slot, stretch, place, len(text), share, counting)
        for (stretch, text), share in zip(standing, tokens, strict=True)
    }
    for block in slot.blocks:
        for piece in block.pieces:
            yield shown.get(id(piece)) or _left_out(block, piece)


def _standing(
    slot: LayerSlot,
    stretch: Stretch,
    place: int,
    characters: int,
    tokens: int,
    counting: Counting,
) -> Part:
    piece = stretch.piece
    return Part(
        layer=stretch.block.layer,
        component=stretch.block.component,
        item=piece.item.name if piece.item else None,
        source=piece.source,
        before=stretch.before,
        after=stretch.after,
        excerpt=piece.excerpt,
        cut=piece.cut,
        indented=piece.indented,
        message=place,
        role=slot.role,
        digest=digest_of(piece.text) if isinstance(piece.source, _SAID) else None,
        characters=characters,
        tokens=tokens,
        saved=_saved(stretch, counting) if piece.treatment == "condensed" else 0,
        treatment=piece.treatment,
        rule=piece.rule,
    )


def _saved(stretch: Stretch, counting: Counting) -> int:
    """Count the tokens that a condensed text saves in its layer."""
    gone = (
        each for each in stretch.block.pieces if each.treatment == "condensed" and not each.text
    )
    longer = sum(counting.count(each.whole) for each in gone)
    return max(0, longer - counting.count(stretch.piece.text))


def _left_out(block: Block, piece: Piece) -> Part:
    return Part(
        layer=block.layer,
        component=block.component,
        item=piece.item.name if piece.item else None,
        source=piece.source,
        treatment=piece.treatment,
        rule=piece.rule,
    )


def _history_parts(slot: HistorySlot, place: int) -> list[Part]:
    """Return runs and gaps in the order of their turns."""
    recap = [_summed_up(slot.recap, place)] if slot.recap else []
    place += slot.summed is not None
    parts: list[tuple[int, Part]] = [(out.first, _gap(slot.view, out)) for out in slot.left_out]
    numbered = enumerate(slot.exchanges)
    for _, run in groupby(numbered, key=lambda item: (item[1].turn - item[0], item[1].retelling)):
        exchanges = [exchange for _, exchange in run]
        parts.append((exchanges[0].turn, _run(slot, exchanges, place)))
        place += sum([len(exchange.said.messages) for exchange in exchanges])
    return [*recap, *(part for _, part in sorted(parts, key=lambda item: item[0]))]


def _summed_up(recap: Recap, place: int) -> Part:
    source = FromEvent(sequence=recap.said.sequence, field=recap.said.field)
    if not recap.stands:
        rule = "drop_oldest_pairs"
        return Part(layer=HISTORY, component=HISTORY, source=source, treatment="dropped", rule=rule)
    return Part(
        layer=HISTORY,
        component=HISTORY,
        source=source,
        message=place,
        role="system",
        digest=recap.said.digest,
        characters=len(recap.text),
        tokens=recap.tokens,
        treatment="summarised",
        rule=SUMMARISED,
    )


def _run(slot: HistorySlot, exchanges: list[Exchange], place: int) -> Part:
    run = [exchange.said for exchange in exchanges]
    retelling = exchanges[0].retelling
    return Part(
        layer=HISTORY,
        component=HISTORY,
        source=FromTurns(
            view=slot.view,
            first=exchanges[0].turn,
            last=exchanges[-1].last,
            work=slot.work,
            condensed=retelling.condensed if retelling else None,
            again=retelling.again if retelling else (),
            later=retelling.later if retelling else None,
        ),
        message=place,
        role=run[0].messages[0].role,
        digest=run_digest(run),
        characters=sum([said.characters for said in run]),
        tokens=sum([exchange.tokens for exchange in exchanges]),
        saved=sum([exchange.saved for exchange in exchanges]),
        treatment="condensed" if retelling else "kept",
        rule=retelling.rule if retelling else None,
    )


def _gap(view: str, out: LeftOut) -> Part:
    return Part(
        layer=HISTORY,
        component=HISTORY,
        source=FromTurns(view=view, first=out.first, last=out.last),
        saved=out.saved,
        treatment=_TREATMENTS.get(out.rule, "absent"),
        rule=out.rule,
    )
