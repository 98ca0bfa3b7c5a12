"""Nesting: layers that stand in the midst of another one, where its text names them.

A prompt file may say `{tools_text}`. If the same message lists the layer of that name, it stands
there, without a fence and without what joins layers, instead of in its place in the list. Only the
file is looked through, never what comes to stand in it; a name that stands twice is met once.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from turnlog.events.manifest import Excerpt
from turnlog.projections.window.pieces import Block, Piece, stood

_NAME: Final = re.compile(r"\{([a-z][a-z0-9_-]*)\}")


class _Place(NamedTuple):
    """Where a text names a layer."""

    begin: int
    end: int
    layer: str


def nested(blocks: tuple[Block, ...], hosts: Container[str]) -> tuple[Block, ...]:
    """Put the layers of a message where the texts of its hosts name them."""
    listed = {block.layer: block for block in blocks}
    groups: dict[str, tuple[Block, ...]] = {}
    inside: set[str] = set()
    for host in blocks:
        if host.layer in hosts and host.layer not in inside:
            places = _first_of(host, listed.keys() - {host.layer, *groups, *inside})
            if places:
                inside |= places.keys()
                groups[host.layer] = tuple(_group(host, places, listed))
    if not groups:
        return blocks
    left = (block for block in blocks if block.layer not in inside)
    return tuple(each for block in left for each in groups.get(block.layer, (block,)))


def _first_of(host: Block, layers: Container[str]) -> dict[str, _Place]:
    """Give the first place at which a text names each of these layers, in its order."""
    found: dict[str, _Place] = {}
    match host.pieces:
        case (piece,) if piece.text:
            for place in _named_in(piece.whole):
                if place.layer in layers:
                    found.setdefault(place.layer, place)
        case _:
            pass
    return found


# Prompt files stand in every call, and nearly none names a layer
@lru_cache(1_024)
def _named_in(text: str) -> tuple[_Place, ...]:
    return tuple(_Place(found.start(), found.end(), found[1]) for found in _NAME.finditer(text))


def _group(
    host: Block, places: Mapping[str, _Place], listed: Mapping[str, Block]
) -> Iterator[Block]:
    (piece,) = host.pieces
    begin = 0
    for layer, place in places.items():
        yield from _stretch(host, piece, begin, place.begin)
        inner = listed[layer]
        yield Block(layer, inner.component, inner.keep, inner.form, inner.pieces, host.layer)
        begin = place.end
    yield from _stretch(host, piece, begin, len(piece.whole))


def _stretch(host: Block, piece: Piece, begin: int, end: int) -> Iterator[Block]:
    """Give what the text says from one place to another, if that is anything."""
    if begin < end:
        text, excerpt = piece.whole[begin:end], Excerpt(begin=begin, end=end)
        whole = Piece(piece.source, text, rule=piece.rule, excerpt=excerpt)
        stands = stood(whole, text, host.form)
        yield Block(host.layer, host.component, host.keep, host.form, (stands,), host.layer)
