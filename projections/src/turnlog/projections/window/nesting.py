from __future__ import annotations

import re
from collections.abc import Container, Iterator, MutableMapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from turnlog.events.manifest import TextExcerpt
from turnlog.projections.window.pieces import LayerBlock, LayerPiece, include_text

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


# Prompt files are part of every call, and nearly none includes a layer.
@lru_cache(1_024)
def _find_includes(text: str) -> tuple[_IncludePoint, ...]:
    return tuple(_IncludePoint(found.start(), found.end(), found[1]) for found in _INCLUDE_NAME.finditer(text))


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


def _build_excerpt(host: LayerBlock, piece: LayerPiece, begin: int, end: int) -> Iterator[LayerBlock]:
    if begin < end:
        text, excerpt = piece.full_text[begin:end], TextExcerpt(begin=begin, end=end)
        whole = LayerPiece(piece.source, text, rule=piece.rule, excerpt=excerpt)
        stands = include_text(whole, text, host.form)
        yield LayerBlock(host.layer, host.component, host.keep, host.form, (stands,), host.layer)
