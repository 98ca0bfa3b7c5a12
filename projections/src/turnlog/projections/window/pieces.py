"""The texts of layers, and the includes between them.

A `LayerPiece` has its full text and the included part of it, so that a ladder can shorten it, drop
it or restore it, and the manifest can record which. A `LayerBlock` is a layer's pieces in order.
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
    """One entry of a list that a layer repeats for."""

    place: int
    """Its position in the list, since a list may contain the same name twice."""
    name: str
    """The name of the item, such as `npc.innkeeper`."""
    heading: str
    """The line above the item; empty for none."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One text of a layer."""

    source: Source | None
    whole: str
    """The text as its source has it."""
    text: str = ""
    """The included text; empty if the piece is left out."""
    treatment: Treatment = "absent"
    rule: str | None = None
    """The condition of the layer, the step that changed the piece, or why it is left out."""
    cut: Cut | None = None
    indented: tuple[int, ...] = ()
    item: Item | None = None
    excerpt: Excerpt | None = None
    """The range of its source's text that `full_text` is; None if it is all of it."""

    @property
    def segment(self) -> FromSegment:
        """The segment that it comes from; raises `TypeError` if its source is something else."""
        if isinstance(self.source, FromSegment):
            return self.source
        raise TypeError(f"{self.source} is no segment")

    def out(self, rule: str) -> Piece:
        """Return the piece left out of the prompt."""
        return replace(self, text="", treatment="dropped", rule=rule, cut=None, indented=())


# Without slots, for the cached property: a ladder measures a block at every step and changes few.
@dataclass(frozen=True)
class Block:
    """A layer as it appears in one call."""

    layer: str
    component: str
    keep: bool
    """Whether it may never be left out."""
    form: Form
    pieces: tuple[Piece, ...]
    within: str | None = None
    """The layer that includes it, whether it is an excerpt of that layer or another layer."""

    @property
    def host(self) -> str:
        """The layer between whose delimiters it is placed."""
        return self.within or self.layer

    @property
    def standing(self) -> tuple[Piece, ...]:
        """The pieces that are included in the prompt."""
        return tuple([piece for piece in self.pieces if piece.text])

    @property
    def led_in(self) -> Sequence[tuple[Piece, str]]:
        """The included pieces, each with its heading if it is the first of its item."""
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
        """The text of the layer, without delimiters."""
        stand = [before + piece.text for piece, before in self.led_in]
        return self.form.segments_between.join(stand)

    @property
    def fenced(self) -> str:
        """The text of the layer with delimiters; empty if the layer is empty."""
        text, form = self.content, self.form
        return opening(form, self.layer) + text + closing(form, self.layer) if text else ""

    def changed(self, change: Callable[[Piece], Piece]) -> Block:
        """Return the block with `change` applied to its included pieces."""
        pieces = tuple([change(piece) if piece.text else piece for piece in self.pieces])
        return Block(self.layer, self.component, self.keep, self.form, pieces, self.within)

    def without(self, gone: Iterable[Piece], rule: str) -> Block:
        """Return the block without some of its included pieces."""
        leaving = {id(piece) for piece in gone}
        return self.changed(lambda piece: piece.out(rule) if id(piece) in leaving else piece)

    def shortened(self, piece: Piece, text: str, treatment: Treatment, rule: str) -> Piece:
        """Return a piece shortened to this beginning of it."""
        cut = Cut(of=len(piece.whole), to=len(text))
        return replace(stood(piece, text, self.form), treatment=treatment, rule=rule, cut=cut)


TakeStep = Callable[[Block, Mapping[str, JsonValue]], Block]
"""A trim step that a package registers: pure, and always the same result for the same layer."""


def stood(piece: Piece, text: str, form: Form) -> Piece:
    """Return a piece that includes this text, with imitated delimiters indented."""
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
