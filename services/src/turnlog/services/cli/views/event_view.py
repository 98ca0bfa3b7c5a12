"""Events on a terminal: one sentence per event, as a table or as lines of `turnlog tail`.

The sentences are the templates of `api.event_sentences`. The web page renders the same templates in
`static/events/event_sentences.js`: a filter that is added here is added there as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from pydantic import JsonValue, TypeAdapter
from rich.table import Table
from rich.text import Text

from turnlog.events.content import Content
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.attempt_figures import AttemptCost, TokenUsage
from turnlog.events.model.memory_events import TurnRange
from turnlog.events.registry import EVENT_NAMES, Event, UnknownEvent, format_event_name
from turnlog.projections.session_views.cost_totals import is_guessed_price
from turnlog.services.api.event_sentences import (
    EVENT_TEMPLATES,
    UNKNOWN_EVENT_TEMPLATE,
    EventTemplate,
    Placeholder,
    TemplateItem,
    parse_template,
)
from turnlog.services.cli.views.text_format import (
    format_content,
    format_count,
    format_digest,
    format_duration,
    format_money,
    format_one_line,
    format_time,
    format_turn_ranges,
    format_usage,
)
from turnlog.services.cli.views.theme import MUTED, create_listing, get_event_colour

EventFields = Mapping[str, JsonValue]

TemplateFilter = Callable[[Any, str, EventFields], JsonValue]
"""Takes a value, the filter's argument and all fields of the event; returns a value or text."""

_CONTENT: Final[TypeAdapter[Content]] = TypeAdapter(Content)

_TURN_RANGES: Final = TypeAdapter(tuple[TurnRange, ...])

_PARSED_TEMPLATES: Final[Mapping[str, EventTemplate]] = {
    name: parse_template(template) for name, template in EVENT_TEMPLATES.items()
}


def describe_event(event: Event) -> str:
    """Describe an event on one line."""
    if isinstance(event, UnknownEvent):
        template = parse_template(UNKNOWN_EVENT_TEMPLATE)
        return _render_template(template, {"fields": len(event.data)})
    template = _PARSED_TEMPLATES[format_event_name(event.type)]
    return _render_template(template, event.model_dump(mode="json", exclude_defaults=True))


def _render_template(template: EventTemplate, fields: EventFields) -> str:
    pieces = (
        _render_group(item, fields) if isinstance(item, tuple) else _render_item(item, fields)
        for item in template
    )
    return format_one_line("".join(pieces))


def _render_group(group: tuple[TemplateItem, ...], fields: EventFields) -> str:
    pieces = [_render_item(item, fields) for item in group]
    return "".join(pieces) if all(pieces) else ""


def _render_item(item: TemplateItem, fields: EventFields) -> str:
    if isinstance(item, str):
        return item
    return _format_value(_evaluate_placeholder(item, fields))


def _evaluate_placeholder(placeholder: Placeholder, fields: EventFields) -> JsonValue:
    value = _get_field(placeholder.path, fields)
    for name, argument in placeholder.filters:
        if value is not None or name in _FILTERS_OF_MISSING_VALUES:
            value = _FILTERS[name](value, argument, fields)
    return value


def _get_field(path: str, fields: EventFields) -> JsonValue:
    value: JsonValue = cast("dict[str, JsonValue]", fields)
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _format_value(value: JsonValue) -> str:
    """Format text as it is and any other value as JSON; empty if there is none."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _format_size(value: int | Sequence[JsonValue], thing: str) -> str:
    return format_count(value if isinstance(value, int) else len(value), thing)


def _format_attempt_cost(stored: Mapping[str, JsonValue]) -> str:
    cost = AttemptCost.model_validate(stored)
    return format_money(cost.micro_dollars, guessed=is_guessed_price(cost.price))


def _format_assignments(values: Mapping[str, JsonValue]) -> str:
    assigned = {name: value for name, value in values.items() if value is not None}
    return " · ".join(f"{name}={_format_value(value)}" for name, value in assigned.items())


def _format_pairs(values: Mapping[str, JsonValue]) -> str:
    return ", ".join(f"{name} {_format_value(value)}" for name, value in values.items())


def _format_files(files: Mapping[str, Mapping[str, str]]) -> str:
    return ", ".join(f"{layer} ← {file['path']}" for layer, file in files.items())


_FILTERS: Final[Mapping[str, TemplateFilter]] = {
    "assignments": lambda value, _argument, _fields: _format_assignments(value),
    "content": lambda value, _argument, _fields: format_content(_CONTENT.validate_python(value)),
    "cost": lambda value, _argument, _fields: _format_attempt_cost(value),
    "count": lambda value, thing, _fields: _format_size(value, thing),
    "digest": lambda value, _argument, _fields: format_digest(value),
    "duration": lambda value, _argument, _fields: format_duration(value),
    "else": lambda value, text, _fields: value or text,
    "files": lambda value, _argument, _fields: _format_files(value),
    "flag": lambda value, text, _fields: text if value else None,
    "included": lambda parts, _argument, _fields: [
        part for part in parts if part.get("role") is not None
    ],
    "keys": lambda value, _argument, _fields: ", ".join(value),
    "list": lambda value, _argument, _fields: ", ".join(value),
    "or": lambda value, path, fields: value or _get_field(path, fields),
    "pairs": lambda value, _argument, _fields: _format_pairs(value),
    "turns": lambda value, _argument, _fields: format_turn_ranges(
        _TURN_RANGES.validate_python(value)
    ),
    "unless": lambda value, path, fields: None if value == _get_field(path, fields) else value,
    "usage": lambda value, _argument, _fields: format_usage(TokenUsage.model_validate(value)),
    "when": lambda value, text, _fields: value if value == text else None,
}
"""Filter by name; `event_sentences.js` has the same filters."""

_FILTERS_OF_MISSING_VALUES: Final = ("else", "or")
"""The filters that receive None as well; a missing value passes the others unchanged."""


_EVENT_NAME_WIDTH: Final = max(len(name) for name in EVENT_NAMES) + 2
"""Columns that fit any event name."""


def render_events(events: Iterable[RecordedEvent]) -> Table:
    """Render a session's events as a table, one per line."""
    table = create_listing(whole_width=True)
    table.add_column("seq", justify="right", style=MUTED, no_wrap=True)
    table.add_column("time", style=MUTED, no_wrap=True)
    table.add_column("event", no_wrap=True)
    table.add_column("what happened", no_wrap=True, overflow="ellipsis", ratio=1)
    for recorded in events:
        table.add_row(
            str(recorded.sequence),
            format_time(recorded.envelope.time),
            _render_event_name(recorded),
            Text(describe_event(recorded.event)),
        )
    return table


def render_event_line(recorded: RecordedEvent, *, with_session: bool) -> Text:
    """Render one event as a line of `turnlog tail`."""
    line = Text().append(f"{format_time(recorded.envelope.time)} ", MUTED)
    if with_session:
        line.append(f"{recorded.session} ", MUTED)
    line.append(f"{recorded.sequence:>4} ", MUTED)
    name = _render_event_name(recorded)
    name.pad_right(_EVENT_NAME_WIDTH - name.cell_len)
    return line.append_text(name).append(describe_event(recorded.event))


def _render_event_name(recorded: RecordedEvent) -> Text:
    return Text(
        format_one_line(format_event_name(recorded.envelope.type)),
        get_event_colour(recorded.envelope.type),
    )
