from __future__ import annotations

import re
from collections.abc import Container, Iterator, MutableMapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from turnlog.events.manifest import Excerpt
from turnlog.projections.window.pieces import Block, Piece, stood

_NAME: Final = re.compile(r"\{([a-z][a-z0-9_-]*)\}")


class _Place(NamedTuple):
    """Where a text includes a layer."""

    begin: int
    end: int
    layer: str


def nested(
    blocks: tuple[Block, ...], hosts: Container[str], layers: Container[str]
) -> tuple[Block, ...]:
    """Insert the layers of a message where the texts of `hosts` name them.

    A prompt file may contain `{tools_text}`. If the same message lists the layer of that name, the
    layer is inserted there once, without delimiters or separators, and leaves its place in the
    list. If the message has no such layer, the name is removed. Only prompt files are searched,
    never inserted text. Names that are not in `layers` stay as they are.
    """
    listed = {block.layer: block for block in blocks}
    groups: dict[str, tuple[Block, ...]] = {}
    for host in blocks:
        if host.layer in hosts and host.layer in listed:
            places = [each for each in _named_in(_text(host)) if each.layer in layers]
            if places:
                del listed[host.layer]
                groups[host.layer] = tuple(_group(host, places, listed))
    if not groups:
        return blocks
    left = (block for block in blocks if block.layer in groups or block.layer in listed)
    return tuple(each for block in left for each in groups.get(block.layer, (block,)))


def _text(host: Block) -> str:
    match host.pieces:
        case (piece,) if piece.text:
            return piece.whole
        case _:
            return ""


# Prompt files are part of every call, and nearly none includes a layer.
@lru_cache(1_024)
def _named_in(text: str) -> tuple[_Place, ...]:
    return tuple(_Place(found.start(), found.end(), found[1]) for found in _NAME.finditer(text))


def _group(
    host: Block, places: Sequence[_Place], listed: MutableMapping[str, Block]
) -> Iterator[Block]:
    """Split a host at its includes, taking the included layers out of `listed`."""
    (piece,) = host.pieces
    begin = 0
    for place in places:
        yield from _stretch(host, piece, begin, place.begin)
        if inner := listed.pop(place.layer, None):
            yield replace(inner, within=host.layer)
        begin = place.end
    yield from _stretch(host, piece, begin, len(piece.whole))


def _stretch(host: Block, piece: Piece, begin: int, end: int) -> Iterator[Block]:
    if begin < end:
        text, excerpt = piece.whole[begin:end], Excerpt(begin=begin, end=end)
        whole = Piece(piece.source, text, rule=piece.rule, excerpt=excerpt)
        stands = stood(whole, text, host.form)
        yield Block(host.layer, host.component, host.keep, host.form, (stands,), host.layer)
