"""Pieces: the texts of a layer, as they would stand in one call and as they came.

A piece knows its whole text and what stands of it, so that a ladder can shorten it, take it out
or put it back, and the record can say which. A block is a layer's pieces in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pydantic import JsonValue

from turnlog.events.manifest import Cut, Excerpt, FromSegment, Source, Treatment
from turnlog.projections.blueprint.form import Form
from turnlog.projections.window.fences import closing, imitations, indented, opening


@dataclass(frozen=True, slots=True)
class Item:
    """One of a list that a layer has a piece for."""

    place: int
    """Its place in the list, since a list may name the same thing twice."""
    name: str
    """What it is called: `npc.innkeeper`."""
    heading: str
    """The line above it; empty for none."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One text of a layer."""

    source: Source | None
    whole: str
    """The text as its source has it."""
    text: str = ""
    """What stands of it; empty when it is left out."""
    treatment: Treatment = "absent"
    rule: str | None = None
    """The condition it stands under, the step that changed it, or why it is left out."""
    cut: Cut | None = None
    indented: tuple[int, ...] = ()
    item: Item | None = None
    excerpt: Excerpt | None = None
    """Which stretch of its source's text `whole` is; none where it is all of it."""

    @property
    def segment(self) -> FromSegment:
        """Its source, which is a segment in a layer of segments."""
        if isinstance(self.source, FromSegment):
            return self.source
        raise TypeError(f"{self.source} is no segment")

    def out(self, rule: str) -> Piece:
        """Take it out of the prompt."""
        return replace(self, text="", treatment="dropped", rule=rule, cut=None, indented=())


# Without slots, since a ladder measures it at every step and changes it at few
@dataclass(frozen=True)
class Block:
    """A layer as it would stand in one call."""

    layer: str
    component: str
    keep: bool
    """Whether it may never be left out."""
    form: Form
    pieces: tuple[Piece, ...]
    within: str | None = None
    """The layer in whose midst it stands, be it a stretch of that layer or another one."""

    @property
    def host(self) -> str:
        """The layer between whose fences it stands."""
        return self.within or self.layer

    @property
    def standing(self) -> tuple[Piece, ...]:
        """The pieces that stand in the prompt."""
        return tuple([piece for piece in self.pieces if piece.text])

    @property
    def led_in(self) -> Sequence[tuple[Piece, str]]:
        """The pieces that stand, the first of every item with its heading."""
        led: list[tuple[Piece, str]] = []
        shown = -1
        for piece in self.standing:
            item = piece.item
            heading = item.heading if item and item.place != shown else ""
            led.append((piece, heading + self.form.segments_between if heading else ""))
            shown = item.place if item else shown
        return led

    @cached_property
    def content(self) -> str:
        """What the layer says, without its fences."""
        stand = [before + piece.text for piece, before in self.led_in]
        return self.form.segments_between.join(stand)

    @property
    def fenced(self) -> str:
        """The same with its fences; nothing where it says nothing."""
        text, form = self.content, self.form
        return opening(form, self.layer) + text + closing(form, self.layer) if text else ""

    def changed(self, change: Callable[[Piece], Piece]) -> Block:
        """Change the pieces that stand."""
        pieces = tuple([change(piece) if piece.text else piece for piece in self.pieces])
        return Block(self.layer, self.component, self.keep, self.form, pieces, self.within)

    def without(self, gone: Iterable[Piece], rule: str) -> Block:
        """Take some of the pieces that stand out of the prompt."""
        leaving = {id(piece) for piece in gone}
        return self.changed(lambda piece: piece.out(rule) if id(piece) in leaving else piece)

    def shortened(self, piece: Piece, text: str, treatment: Treatment, rule: str) -> Piece:
        """Leave only this beginning of a piece."""
        cut = Cut(of=len(piece.whole), to=len(text))
        return replace(stood(piece, text, self.form), treatment=treatment, rule=rule, cut=cut)


TakeStep = Callable[[Block, Mapping[str, JsonValue]], Block]
"""A step that a package registers: pure, and the same for the same layer for ever."""


def stood(piece: Piece, text: str, form: Form) -> Piece:
    """Let a text of a piece stand in the prompt, its lines kept from passing for fences."""
    places = imitations(form, text)
    stands = indented(text, places)
    return Piece(
        piece.source,
        piece.whole,
        stands,
        "kept",
        piece.rule,
        piece.cut,
        places,
        piece.item,
        piece.excerpt,
    )
