"""One sentence per event type, as templates that the command line and the web page both render.

The class of an event declares its template: text with placeholders for the stored fields of the
event. `{path}` is the value of a field, `{path|filter}` and `{path|filter:argument}` pass the value
through filters, and `[...]` is left out when one of its placeholders is empty. A field that the
stored event lacks is empty.

The command line renders in `cli.views.event_view`. The web page renders the file that
`docs/generate/event_catalogue.py` writes from this module. A test compares both on every sample.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from turnlog.events.registry import EVENT_TYPES, LIBRARY_EVENT_TYPES, format_event_name

LIBRARY_FAMILY: Final = "prompt"
"""The family of the events of a segment library, whose texts become parts of prompts."""

EVENT_FAMILIES: Final[Mapping[str, str]] = {
    format_event_name(wire_type): kind.leaf.partition(".")[0]
    for wire_type, kind in EVENT_TYPES.items()
} | {format_event_name(wire_type): LIBRARY_FAMILY for wire_type in LIBRARY_EVENT_TYPES}
"""Family by event name: for session events, the first part of the `leaf` of their class."""

UNKNOWN_EVENT_TEMPLATE: Final = "not known to this release · {fields|count:field}"
"""The sentence for an event of an unknown type; `fields` is the number of its fields."""


EVENT_TEMPLATES: Final[Mapping[str, str]] = {
    format_event_name(wire_type): kind.sentence for wire_type, kind in EVENT_TYPES.items()
}
"""Template by name of a session event."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A field of the stored event and the filters that format it."""

    path: str
    """The names of the field and its inner fields, joined by dots."""
    filters: tuple[tuple[str, str], ...]
    """Name and argument of each filter; the argument is empty if there is none."""


TemplateItem = str | Placeholder

TemplateGroup = tuple[TemplateItem, ...]
"""Text and placeholders that are left out together."""

EventTemplate = tuple[TemplateItem | TemplateGroup, ...]
"""A parsed template; an inner tuple is an optional group."""


def parse_template(template: str) -> EventTemplate:
    """Parse the text of a template."""
    return tuple(_iterate_template(template))


def _iterate_template(template: str) -> Iterator[TemplateItem | TemplateGroup]:
    for piece in re.split(r"(\[[^\]]*\])", template):
        if piece.startswith("["):
            yield tuple(_iterate_items(piece[1:-1]))
        else:
            yield from _iterate_items(piece)


def _iterate_items(piece: str) -> Iterator[TemplateItem]:
    for item in filter(None, re.split(r"(\{[^}]*\})", piece)):
        yield _parse_placeholder(item[1:-1]) if item.startswith("{") else item


def _parse_placeholder(item: str) -> Placeholder:
    path, *filters = item.split("|")
    named = (each.partition(":") for each in filters)
    return Placeholder(path, tuple((name, argument) for name, _, argument in named))
