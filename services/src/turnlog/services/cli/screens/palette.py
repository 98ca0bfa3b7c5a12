"""Colours: one for each family of events, and a wheel for layers and components.

Mid-tones that read on dark and on light terminals; rich brings them down to what a terminal can
show, and to none where colour is not wanted. Colour never says anything that words do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from turnlog.events.kinds import KINDS
from turnlog.events.manifest import Part

FAMILIES: Final[Mapping[str, str]] = {
    "session": "#5f87ff",
    "prompt": "#af5fff",
    "turn": "#2fb36a",
    "call": "#d48a1f",
    "tool": "#1fa8a0",
    "redaction": "#e5534b",
    "phase": "#d75faf",
    "memory": "#87a52a",
}
"""Family to colour."""
UNKNOWN: Final = "#8a8f98"
"""An event of a type this release does not know."""
QUIET: Final = "#8a8f98"
"""What is there to be found, not to be read."""
GOOD: Final = "#2fb36a"
BAD: Final = "#e5534b"
WARY: Final = "#d48a1f"

_WHEEL: Final = ("#5f87ff", "#af5fff", "#1fa8a0", "#d48a1f", "#d75faf", "#87a52a", "#c9744f")
_BUILT_IN: Final = {"history": "#7d8aa5", "input": "#2fb36a"}


def event_colour(wire_type: str) -> str:
    """Give the colour of an event's family."""
    kind = KINDS.get(wire_type)
    return FAMILIES.get(kind.leaf.partition(".")[0], UNKNOWN) if kind else UNKNOWN


def layer_colours(parts: Iterable[Part]) -> dict[str, str]:
    """Give every layer a colour of its own, in the order they stand."""
    layers = tuple(dict.fromkeys(part.layer for part in parts))
    turning = coloured(layer for layer in layers if layer not in _BUILT_IN)
    return {layer: _BUILT_IN.get(layer) or turning[layer] for layer in layers}


def coloured(names: Iterable[str]) -> dict[str, str]:
    """Give each name a colour of the wheel, in their order."""
    return {name: _WHEEL[place % len(_WHEEL)] for place, name in enumerate(names)}


def component_colours(parts: Iterable[Part]) -> dict[str, str]:
    """Give every component the colour of its first layer."""
    held = tuple(parts)
    layers = layer_colours(held)
    colours: dict[str, str] = {}
    for part in held:
        colours.setdefault(part.component, layers[part.layer])
    return colours
