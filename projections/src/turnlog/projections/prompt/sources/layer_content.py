"""The texts of layers, and the includes between them.

A `LayerPiece` has its full text and the included part of it, so that a ladder can shorten it, drop
it or restore it, and the manifest can record which. A `LayerBlock` is a layer's pieces in order.
"""

from __future__ import annotations

import re
from collections.abc import (
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from pydantic import JsonValue

from turnlog.events.model.manifest import (
    EventTextSource,
    PartSource,
    PartTreatment,
    SegmentSource,
    TextExcerpt,
    TextTruncation,
)
from turnlog.projections.blueprint.schema.call_specs import MessageFormat
from turnlog.projections.prompt.sources.delimiters import (
    find_imitations,
    format_closing,
    format_opening,
    indent_lines,
)


@dataclass(frozen=True, slots=True)
class LayerItem:
    """One entry of a list that a layer repeats for."""

    place: int
    """Its position in the list, since a list may contain the same name twice."""
    name: str
    """The name of the item, such as `npc.innkeeper`."""
    heading: str
    """The line above the item; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPiece:
    """One text of a layer."""

    source: PartSource | None
    full_text: str
    """The text as its source has it."""
    text: str = ""
    """The included text; empty if the piece is left out."""
    treatment: PartTreatment = "absent"
    rule: str | None = None
    """The condition of the layer, the step that changed the piece, or why it is left out."""
    cut: TextTruncation | None = None
    indented: tuple[int, ...] = ()
    item: LayerItem | None = None
    excerpt: TextExcerpt | None = None
    """The range of its source's text that `full_text` is; None if it is all of it."""
    shorter: tuple[LayerPiece, ...] = ()
    """What a step may replace it by, the longest first."""
    full_length: int = 0
    """Length of the tool result that it condenses; 0 if it condenses none."""

    @property
    def segment(self) -> SegmentSource:
        """The segment that it comes from; raises `TypeError` if its source is something else."""
        if isinstance(self.source, SegmentSource):
            return self.source
        raise TypeError(f"{self.source} is no segment")

    @property
    def source_field(self) -> str | None:
        """The field of the event that its text is in; None if its source is something else."""
        return self.source.field if isinstance(self.source, EventTextSource) else None

    def drop_text(self, rule: str) -> LayerPiece:
        """Return the piece left out of the prompt."""
        return replace(self, text="", treatment="dropped", rule=rule, cut=None, indented=())


# Without slots, for the cached property: a ladder measures a block at every step and changes few.
@dataclass(frozen=True, kw_only=True)
class LayerBlock:
    """A layer as it appears in one call."""

    layer: str
    component: str
    keep: bool
    """Whether it may never be left out."""
    form: MessageFormat
    pieces: tuple[LayerPiece, ...]
    within: str | None = None
    """The layer that includes it, whether it is an excerpt of that layer or another layer."""

    @property
    def host(self) -> str:
        """The layer between whose delimiters it is placed."""
        return self.within or self.layer

    @property
    def included_pieces(self) -> tuple[LayerPiece, ...]:
        """The pieces that are included in the prompt."""
        return tuple([piece for piece in self.pieces if piece.text])

    @property
    def pieces_with_headings(self) -> Sequence[tuple[LayerPiece, str]]:
        """The included pieces, each with its heading if it is the first of its item."""
        headed_pieces: list[tuple[LayerPiece, str]] = []
        last_place = -1
        for piece in self.included_pieces:
            item = piece.item
            heading = item.heading if item and item.place != last_place else ""
            headed_pieces.append((piece, heading + self.form.segments_between if heading else ""))
            last_place = item.place if item else last_place
        return headed_pieces

    @cached_property
    def content(self) -> str:
        """The text of the layer, without delimiters."""
        texts = [before + piece.text for piece, before in self.pieces_with_headings]
        return self.form.segments_between.join(texts)

    @property
    def delimited_content(self) -> str:
        """The text of the layer with delimiters; empty if the layer is empty."""
        text, form = self.content, self.form
        return (
            format_opening(form, self.layer) + text + format_closing(form, self.layer)
            if text
            else ""
        )

    def map_pieces(self, change: Callable[[LayerPiece], LayerPiece]) -> LayerBlock:
        """Return the block with `change` applied to its included pieces."""
        pieces = tuple([change(piece) if piece.text else piece for piece in self.pieces])
        return LayerBlock(
            layer=self.layer,
            component=self.component,
            keep=self.keep,
            form=self.form,
            pieces=pieces,
            within=self.within,
        )

    def drop_pieces(self, dropped: Iterable[LayerPiece], rule: str) -> LayerBlock:
        """Return the block without some of its included pieces."""
        leaving = {id(piece) for piece in dropped}
        return self.map_pieces(
            lambda piece: piece.drop_text(rule) if id(piece) in leaving else piece
        )

    def shorten_piece(
        self, piece: LayerPiece, text: str, treatment: PartTreatment, rule: str
    ) -> LayerPiece:
        """Return a piece shortened to this beginning of it."""
        cut = TextTruncation(of=len(piece.full_text), to=len(text))
        return replace(
            include_text(piece, text, self.form), treatment=treatment, rule=rule, cut=cut
        )


ApplyRegisteredStep = Callable[[LayerBlock, Mapping[str, JsonValue]], LayerBlock]
"""A trim step that a package registers: pure, and always the same result for the same layer."""


def include_text(piece: LayerPiece, text: str, form: MessageFormat) -> LayerPiece:
    """Return a piece that includes this text, with imitated delimiters indented."""
    places = find_imitations(form, text)
    indented = indent_lines(text, places)
    return LayerPiece(
        source=piece.source,
        full_text=piece.full_text,
        text=indented,
        treatment="kept",
        rule=piece.rule,
        cut=piece.cut,
        indented=places,
        item=piece.item,
        excerpt=piece.excerpt,
        shorter=piece.shorter,
        full_length=piece.full_length,
    )


_INCLUDE_NAME: Final = re.compile(r"\{([a-z][a-z0-9_-]*)\}")


class _IncludePoint(NamedTuple):
    """Where a text includes a layer."""

    begin: int
    end: int
    layer: str


def include_layers(
    blocks: tuple[LayerBlock, ...], hosts: Container[str], layers: Container[str]
) -> tuple[LayerBlock, ...]:
    """Insert the layers of a message where the texts of `hosts` name them.

    A prompt file may contain `{tools_text}`. If the same message lists the layer of that name, the
    layer is inserted there once, without delimiters or separators, and leaves its place in the
    list. If the message has no such layer, the name is removed. Only prompt files are searched,
    never inserted text. Names that are not in `layers` stay as they are.
    """
    listed = {block.layer: block for block in blocks}
    groups: dict[str, tuple[LayerBlock, ...]] = {}
    for host in blocks:
        if host.layer in hosts and host.layer in listed:
            places = [each for each in _find_includes(_get_host_text(host)) if each.layer in layers]
            if places:
                del listed[host.layer]
                groups[host.layer] = tuple(_split_host(host, places, listed))
    if not groups:
        return blocks
    left = (block for block in blocks if block.layer in groups or block.layer in listed)
    return tuple(each for block in left for each in groups.get(block.layer, (block,)))


def _get_host_text(host: LayerBlock) -> str:
    match host.pieces:
        case (piece,) if piece.text:
            return piece.full_text
        case _:
            return ""


def list_include_names(text: str) -> tuple[str, ...]:
    """Return the names in braces that a prompt file would include layers by, each once."""
    return tuple(dict.fromkeys(each.layer for each in _find_includes(text)))


# Prompt files are part of every call, and nearly none includes a layer.
@lru_cache(1_024)
def _find_includes(text: str) -> tuple[_IncludePoint, ...]:
    return tuple(
        _IncludePoint(found.start(), found.end(), found[1])
        for found in _INCLUDE_NAME.finditer(text)
    )


def _split_host(
    host: LayerBlock, places: Sequence[_IncludePoint], listed: MutableMapping[str, LayerBlock]
) -> Iterator[LayerBlock]:
    """Split a host at its includes, taking the included layers out of `listed`."""
    (piece,) = host.pieces
    begin = 0
    for place in places:
        yield from _build_excerpt(host, piece, begin, place.begin)
        if inner := listed.pop(place.layer, None):
            yield replace(inner, within=host.layer)
        begin = place.end
    yield from _build_excerpt(host, piece, begin, len(piece.full_text))


def _build_excerpt(
    host: LayerBlock, piece: LayerPiece, begin: int, end: int
) -> Iterator[LayerBlock]:
    if begin < end:
        text, excerpt = piece.full_text[begin:end], TextExcerpt(begin=begin, end=end)
        source_piece = LayerPiece(
            source=piece.source, full_text=text, rule=piece.rule, excerpt=excerpt
        )
        included = include_text(source_piece, text, host.form)
        yield LayerBlock(
            layer=host.layer,
            component=host.component,
            keep=host.keep,
            form=host.form,
            pieces=(included,),
            within=host.layer,
        )
