"""Rendering: a plan becomes messages, and every piece of it a part of the manifest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from turnlog.events.content import digest_of
from turnlog.events.manifest import FromEvent, FromResolved, FromTurns, Part
from turnlog.projections.window.condensing import DUPLICATES
from turnlog.projections.window.counting import Counting
from turnlog.projections.window.history import OUT_OF_REACH, LeftOut
from turnlog.projections.window.pieces import Block, Piece
from turnlog.projections.window.plan import HistorySlot, LayerSlot, Plan, Stretch, stretches
from turnlog.projections.window.request import ChatMessage
from turnlog.projections.window.spoken import Exchange, run_digest

_SAID: Final = (FromEvent, FromResolved)
"""Sources that do not give a text's digest themselves."""


def rendered(plan: Plan, counting: Counting) -> tuple[tuple[ChatMessage, ...], tuple[Part, ...]]:
    """Give the messages of a plan, and its parts in order, those left out included."""
    messages: list[ChatMessage] = []
    parts: list[Part] = []
    for slot in plan:
        if isinstance(slot, HistorySlot):
            parts += _history_parts(slot, len(messages))
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
        id(stretch.piece): _standing(slot, stretch, place, len(text), share)
        for (stretch, text), share in zip(standing, tokens, strict=True)
    }
    for block in slot.blocks:
        for piece in block.pieces:
            yield shown.get(id(piece)) or _left_out(block, piece)


def _standing(slot: LayerSlot, stretch: Stretch, place: int, characters: int, tokens: int) -> Part:
    piece = stretch.piece
    return Part(
        layer=stretch.block.layer,
        component=stretch.block.component,
        item=piece.item.name if piece.item else None,
        source=piece.source,
        before=stretch.before,
        after=stretch.after,
        cut=piece.cut,
        indented=piece.indented,
        message=place,
        role=slot.role,
        digest=digest_of(piece.text) if isinstance(piece.source, _SAID) else None,
        characters=characters,
        tokens=tokens,
        treatment=piece.treatment,
        rule=piece.rule,
    )


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
    """Give runs and gaps in the order of their turns."""
    parts: list[tuple[int, Part]] = [(out.first, _gap(slot.view, out)) for out in slot.left_out]
    numbered = enumerate(slot.exchanges)
    for _, run in groupby(numbered, key=lambda item: (item[1].turn - item[0], item[1].retelling)):
        exchanges = [exchange for _, exchange in run]
        parts.append((exchanges[0].turn, _run(slot, exchanges, place)))
        place += sum([len(exchange.said.messages) for exchange in exchanges])
    return [part for _, part in sorted(parts, key=lambda item: item[0])]


def _run(slot: HistorySlot, exchanges: list[Exchange], place: int) -> Part:
    run = [exchange.said for exchange in exchanges]
    retelling = exchanges[0].retelling
    return Part(
        layer="history",
        component="history",
        source=FromTurns(
            view=slot.view,
            first=exchanges[0].turn,
            last=exchanges[-1].last,
            work=slot.work,
            condensed=retelling.condensed if retelling else None,
            again=retelling.again if retelling else (),
        ),
        message=place,
        role=run[0].messages[0].role,
        digest=run_digest(run),
        characters=sum([said.characters for said in run]),
        tokens=sum([exchange.tokens for exchange in exchanges]),
        treatment="condensed" if retelling else "kept",
        rule=retelling.rule if retelling else None,
    )


def _gap(view: str, out: LeftOut) -> Part:
    cut = out.rule in {"drop_oldest_pairs", OUT_OF_REACH}
    said = "condensed" if out.rule == DUPLICATES else "absent"
    return Part(
        layer="history",
        component="history",
        source=FromTurns(view=view, first=out.first, last=out.last),
        treatment="dropped" if cut else said,
        rule=out.rule,
    )
