"""The look of the command line: colours, and the tables that all views share.

The colours are mid-tones that are readable on dark and light terminals; rich reduces them to what
the terminal can show. Colour never carries information that the words do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from turnlog.events.kinds import EVENT_TYPES
from turnlog.events.manifest import PromptPart

FAMILY_COLOURS: Final[Mapping[str, str]] = {
    "session": "#5f87ff",
    "prompt": "#af5fff",
    "turn": "#2fb36a",
    "call": "#d48a1f",
    "tool": "#1fa8a0",
    "redaction": "#e5534b",
    "phase": "#d75faf",
    "memory": "#87a52a",
}
"""Colour of each event family."""
UNKNOWN_COLOUR: Final = "#8a8f98"
"""Colour of an event whose type this release does not know."""
MUTED: Final = "#8a8f98"
"""Colour of secondary text."""
GOOD: Final = "#2fb36a"
BAD: Final = "#e5534b"
WARNING: Final = "#d48a1f"

_COLOUR_WHEEL: Final = ("#5f87ff", "#af5fff", "#1fa8a0", "#d48a1f", "#d75faf", "#87a52a", "#c9744f")
_FIXED_COLOURS: Final = {"history": "#7d8aa5", "input": "#2fb36a"}


def get_event_colour(wire_type: str) -> str:
    """Return the colour of an event's family."""
    kind = EVENT_TYPES.get(wire_type)
    return FAMILY_COLOURS.get(kind.leaf.partition(".")[0], UNKNOWN_COLOUR) if kind else UNKNOWN_COLOUR


def choose_layer_colours(parts: Iterable[PromptPart]) -> dict[str, str]:
    """Choose a colour for every layer, in the order of the layers."""
    layers = tuple(dict.fromkeys(part.layer for part in parts))
    turning = choose_colours(layer for layer in layers if layer not in _FIXED_COLOURS)
    return {layer: _FIXED_COLOURS.get(layer) or turning[layer] for layer in layers}


def choose_colours(names: Iterable[str]) -> dict[str, str]:
    """Choose a colour of the wheel for each name, in their order."""
    return {name: _COLOUR_WHEEL[place % len(_COLOUR_WHEEL)] for place, name in enumerate(names)}


def choose_component_colours(parts: Iterable[PromptPart]) -> dict[str, str]:
    """Return for each component the colour of its first layer."""
    held = tuple(parts)
    layers = choose_layer_colours(held)
    colours: dict[str, str] = {}
    for part in held:
        colours.setdefault(part.component, layers[part.layer])
    return colours
