"""The plan of a prompt: slots in order, before and after the ladder has been applied.

A plan knows everything a part of the manifest says except its place among the messages, which
is settled last, when it is known what stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.manifest import Role
from turnlog.projections.blueprint.schema import CharactersPerToken
from turnlog.projections.window.counting import count
from turnlog.projections.window.history import Exchange, LeftOut
from turnlog.projections.window.layers import Piece


@dataclass(frozen=True, slots=True)
class LayerSlot:
    """One message made of layers; without any text it leaves no trace."""

    role: Role
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class HistorySlot:
    """The messages of a history view, oldest first, and the turns that are not among them."""

    view: str
    exchanges: tuple[Exchange, ...]
    left_out: tuple[LeftOut, ...]


Slot = LayerSlot | HistorySlot
Plan = tuple[Slot, ...]


def piece_tokens(piece: Piece, counter: CharactersPerToken) -> int:
    """Count a layer."""
    return count(counter, len(piece.text))


def plan_tokens(plan: Plan, counter: CharactersPerToken) -> int:
    """Count everything that stands in the prompt."""
    return sum(_slot_tokens(slot, counter) for slot in plan)


def _slot_tokens(slot: Slot, counter: CharactersPerToken) -> int:
    if isinstance(slot, HistorySlot):
        return sum(exchange.tokens for exchange in slot.exchanges)
    return sum(piece_tokens(piece, counter) for piece in slot.pieces)
