"""The plan of a prompt: its messages and histories in order, before and after trimming.

A plan holds everything that a part of the manifest records, except the message index. That is known
only when it is settled which messages stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final

from turnlog.events.manifest import Role
from turnlog.projections.blueprint.form import Form
from turnlog.projections.session.state import Said
from turnlog.projections.window.fences import closing, opening
from turnlog.projections.window.history import LeftOut
from turnlog.projections.window.pieces import Block, Piece
from turnlog.projections.window.spoken import Exchange


@dataclass(frozen=True, slots=True)
class LayerSlot:
    """One message made of layers; it is omitted if no layer has a text."""

    role: Role
    form: Form
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Recap:
    """The summary of older turns, as the message before the turns of its view."""

    said: Said
    text: str
    tokens: int
    stands: bool = True


@dataclass(frozen=True, slots=True)
class HistorySlot:
    """The messages of a history view, oldest first, and the turns that are excluded."""

    view: str
    exchanges: tuple[Exchange, ...]
    left_out: tuple[LeftOut, ...]
    work: bool = False
    """Whether they also show how each turn was worked out."""
    recap: Recap | None = None
    """The summary that replaces older turns."""

    @property
    def summed(self) -> Recap | None:
        """The summary, if it is included."""
        return self.recap if self.recap and self.recap.stands else None

    @property
    def tokens(self) -> int:
        """Tokens of all messages."""
        summed = self.summed.tokens if self.summed else 0
        return summed + sum([exchange.tokens for exchange in self.exchanges])

    @property
    def characters(self) -> int:
        """Length of all messages."""
        summed = len(self.summed.text) if self.summed else 0
        return summed + sum([exchange.said.characters for exchange in self.exchanges])


_HOST: Final = attrgetter("host")

Slot = LayerSlot | HistorySlot
Plan = tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece with the text around it in its message."""

    block: Block
    piece: Piece
    before: str
    after: str

    @property
    def text(self) -> str:
        """Everything that the piece adds to the message."""
        return self.before + self.piece.text + self.after


def stretches(slot: LayerSlot) -> Iterator[Stretch]:
    """Yield the included pieces of a message with the delimiters and separators around them."""
    form, joint = slot.form, ""
    for host, blocks in groupby(slot.blocks, _HOST):
        standing = [
            (block, piece, form.segments_between * (place > 0) + before)
            for block in blocks
            for place, (piece, before) in enumerate(block.led_in)
        ]
        for at, (block, piece, before) in enumerate(standing):
            outer = "" if at else joint + opening(form, host)
            after = closing(form, host) if at == len(standing) - 1 else ""
            yield Stretch(block, piece, outer + before, after)
        joint = form.between if standing else joint


def message(slot: LayerSlot) -> str:
    """Return the whole text of a message."""
    if any(block.within for block in slot.blocks):
        return "".join([stretch.text for stretch in stretches(slot)])
    return slot.form.between.join(filter(None, [block.fenced for block in slot.blocks]))


def on_block(plan: Plan, layer: str, change: Callable[[Block], Block]) -> Plan:
    """Apply a change to a layer in every message that contains it."""
    return tuple(_on(slot, layer, change) for slot in plan)


def _on(slot: Slot, layer: str, change: Callable[[Block], Block]) -> Slot:
    if isinstance(slot, HistorySlot) or all(block.layer != layer for block in slot.blocks):
        return slot
    blocks = (change(block) if block.layer == layer else block for block in slot.blocks)
    return LayerSlot(slot.role, slot.form, tuple(blocks))


def on_view(plan: Plan, view: str, change: Callable[[HistorySlot], HistorySlot]) -> Plan:
    """Apply a change to a history view."""
    return tuple(
        change(slot) if isinstance(slot, HistorySlot) and slot.view == view else slot
        for slot in plan
    )
