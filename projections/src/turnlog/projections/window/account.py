"""The account of a call: which layers stand in it, by which segments, and what was cut to fit.

It is read off the manifest and says nothing that is not there. What a manifest tells part by part
is told here layer by layer, for an application that wants to know what became of its input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from turnlog.events.manifest import Cut, FromSegment, Manifest, Part


@dataclass(frozen=True, slots=True)
class Lowered:
    """An item that stands with fewer tiers than the turn allowed it."""

    item: str
    from_tier: int
    """The highest that would have stood."""
    to_tier: int
    """The highest that was left."""


@dataclass(frozen=True, slots=True)
class LayerAccount:
    """What became of one layer that stands, or would have stood."""

    layer: str
    stands: bool
    segments: tuple[int, ...]
    """Those that stand, in order."""
    trimmed: Cut | None
    compressed: bool
    lowered: tuple[Lowered, ...]
    dropped: bool
    """Whether all of it was left out to make room."""


def accounts(manifest: Manifest) -> tuple[LayerAccount, ...]:
    """Give an account of every layer in the order of the prompt, history and tools apart."""
    layers: dict[str, list[Part]] = {}
    for part in manifest.parts:
        if part.layer != "history" and part.role != "tools":
            layers.setdefault(part.layer, []).append(part)
    return tuple(_account(layer, parts) for layer, parts in layers.items())


def _account(layer: str, parts: Sequence[Part]) -> LayerAccount:
    standing = [part for part in parts if part.kept]
    cuts = {part.treatment: part.cut for part in standing if part.cut}
    return LayerAccount(
        layer=layer,
        stands=bool(standing),
        segments=tuple(source.segment for _, source in _segments(standing)),
        trimmed=cuts.get("trimmed"),
        compressed="compressed" in cuts,
        lowered=tuple(_lowered(parts)),
        dropped=not standing and any(part.treatment == "dropped" for part in parts),
    )


def _lowered(parts: Sequence[Part]) -> Iterator[Lowered]:
    """Find the items a tier was taken from, by what else of them was left then."""
    shown = [
        (part, source)
        for part, source in _segments(parts)
        if part.treatment != "absent" and not (part.kept and part.rule == "replace")
    ]
    for item, those in groupby(shown, lambda pair: pair[0].item or pair[1].ref or ""):
        pairs = list(those)
        if any(part.rule == "lower_tier" for part, _ in pairs):
            left = (source.tier for part, source in pairs if part.rule != "lower_tier")
            yield Lowered(item, max(source.tier for _, source in pairs), max(left))


def _segments(parts: Sequence[Part]) -> list[tuple[Part, FromSegment]]:
    return [(part, part.source) for part in parts if isinstance(part.source, FromSegment)]
