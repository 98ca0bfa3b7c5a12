"""The look of the command line: colours, and the tables that all views share.

The colours are mid-tones that are readable on dark and light terminals; rich reduces them to what
the terminal can show. Colour never carries information that the words do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rich.box import Box
from rich.table import Table
from rich.text import Text

from turnlog.events.model.manifest import PromptPart
from turnlog.events.registry import format_event_name
from turnlog.services.api.event_sentences import EVENT_FAMILIES
from turnlog.services.cli.views.text_format import escape_controls

FAMILY_COLOURS: Final[Mapping[str, str]] = {
    "session": "#5f87ff",
    "prompt": "#af5fff",
    "turn": "#2fb36a",
    "call": "#d48a1f",
    "tool": "#1fa8a0",
    "redaction": "#e5534b",
    "erasure": "#b0413e",
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

_CROWDED, _TIGHT = 0.9, 0.7
"""Shares of a budget from which a prompt is shown as nearly full."""

_FIXED_COLOURS: Final = {"history": "#7d8aa5", "input": "#2fb36a"}


def get_event_colour(wire_type: str) -> str:
    """Return the colour of an event's family."""
    return get_family_colour(format_event_name(wire_type))


def get_family_colour(event_name: str) -> str:
    """Return the colour of the family of an event name."""
    return FAMILY_COLOURS.get(EVENT_FAMILIES.get(event_name, ""), UNKNOWN_COLOUR)


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
    all_parts = tuple(parts)
    layers = choose_layer_colours(all_parts)
    colours: dict[str, str] = {}
    for part in all_parts:
        colours.setdefault(part.component, layers[part.layer])
    return colours


_STROKE_BOX: Final = Box("    \n  ▌ \n    \n  ▌ \n    \n    \n  ▌ \n    \n")
"""A box that draws only a stroke between two columns."""


def render_labelled_text(label: str, text: str, colour: str, width: int, style: str = "") -> Table:
    """Render a text beside a label of `width` columns, with a stroke at every line."""
    table = Table(box=_STROKE_BOX, show_header=False, show_edge=False, border_style=colour)
    table.add_column(width=width, justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(Text(label, f"bold {colour}"), Text(escape_controls(text), style))
    return table


def render_confirmation(what: str, sequence: int) -> Text:
    """Render what a command did, and the event that records it."""
    return Text("✓ ", GOOD).append(what, "default").append(f"  event {sequence}", MUTED)


def render_budget_share(share: float | None) -> Text:
    """Render how much of its budget a prompt takes; nothing where it has none."""
    if share is None:
        return Text()
    return Text(f"{share:.0%}", BAD if share > _CROWDED else WARNING if share > _TIGHT else GOOD)


def create_listing(*, whole_width: bool = False) -> Table:
    """Create a borderless table."""
    return Table(
        box=None, padding=(0, 2, 0, 0), header_style=MUTED, pad_edge=False, expand=whole_width
    )
