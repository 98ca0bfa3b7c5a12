"""The origin of prompt parts on a terminal: source, event, template values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.text import Text

from turnlog.events.kinds import EVENT_TYPES, format_event_name
from turnlog.events.library import LIBRARY_EVENT_TYPES
from turnlog.events.manifest import (
    EventTextSource,
    ResolutionSource,
    SegmentSource,
    HistorySource,
    PromptPart,
    PartSource,
)
from turnlog.projections.audit.origins import EventRef, FilledValue, PartProvenance, RemovedTurns
from turnlog.services.cli.screens.palette import FAMILY_COLOURS, MUTED, UNKNOWN_COLOUR, WARNING
from turnlog.services.cli.screens.prompt import render_source
from turnlog.services.cli.screens.spelling import format_time, format_count, format_one_line

_LIBRARY_EVENTS: Final = frozenset(map(format_event_name, LIBRARY_EVENT_TYPES))
"""Names of the segment library's events."""
_EVENT_COLOURS = {
    kind.type.split(".")[1]: FAMILY_COLOURS[kind.leaf.partition(".")[0]] for kind in EVENT_TYPES.values()
} | dict.fromkeys(_LIBRARY_EVENTS, FAMILY_COLOURS["prompt"])
"""Colour of each event name, by its family."""
_MAX_NAMED: Final = 2
"""Up to this many events are named one by one."""


def render_cause(cause: EventRef) -> Text:
    """Render an event with its time and actor."""
    of = "library event" if cause.event in _LIBRARY_EVENTS else "event"
    line = Text(f"{of} {cause.sequence} ", MUTED)
    line.append(format_one_line(cause.event), _EVENT_COLOURS.get(cause.event, UNKNOWN_COLOUR))
    return line.append(f" {format_time(cause.time)} by {format_one_line(cause.actor)}", MUTED)


def render_origin(origin: PartProvenance) -> Text:
    """Render the origin of a part, one line per fact."""
    return Text("\n").join(_list_origin_lines(origin))


def _list_origin_lines(origin: PartProvenance) -> Iterator[Text]:
    part = origin.part
    size = Text(f"{format_count(part.tokens, 'token')} · ", MUTED)
    yield size.append_text(render_source(part.source)).append(_describe_treatment(part), MUTED)
    if origin.tool:
        yield Text("given by ", MUTED).append(format_one_line(origin.tool), "default")
    if origin.by:
        yield Text(f"{_choose_verb(part.source)} ", MUTED).append_text(_render_source_events(origin.by))
    if origin.filled:
        yield _render_filled(origin.filled)
    for each in origin.because if part.treatment == "kept" else ():
        yield Text(f"{part.rule}: ", MUTED).append_text(render_cause(each))
    yield from map(render_removal, origin.removed)


def _render_source_events(by: Sequence[EventRef]) -> Text:
    """Render the events that contain a text; of many, the first and the last."""
    if len(by) <= _MAX_NAMED:
        return Text(", ").join(render_cause(each) for each in by)
    first, last = by[0].sequence, by[-1].sequence
    return Text(f"{len(by)} events, {first} to {last}", MUTED)


def render_removal(removed: RemovedTurns) -> Text:
    """Render what removed a run of turns, with the event behind it."""
    return (
        Text(f"{format_turn_run(removed.first, removed.last)} ")
        .append(removed.rule, WARNING)
        .append(": ", MUTED)
        .append_text(render_cause(removed.by))
    )


def format_turn_run(first: int, last: int) -> str:
    """Format a run of turns."""
    return f"turn {first}" if first == last else f"turns {first} to {last}"


def _describe_treatment(part: PromptPart) -> str:
    return "" if part.treatment == "kept" else f" · {part.treatment} by {part.rule}"


def _choose_verb(origin: PartSource | None) -> str:
    match origin:
        case SegmentSource():
            return "written in"
        case EventTextSource() | ResolutionSource() | HistorySource():
            return "said in"
        case _:
            return "pinned by"


def _render_filled(filled: Iterable[FilledValue]) -> Text:
    """Render the filled-in values, grouped by their events."""
    by_events: dict[tuple[int, ...], list[str]] = {}
    for each in filled:
        by_events.setdefault(tuple(cause.sequence for cause in each.by), []).append(each.path)
    line = Text("with ", MUTED)
    for place, (events, paths) in enumerate(by_events.items()):
        line.append("; " if place else "", MUTED).append(", ".join(_shorten_paths(paths)), "default")
        line.append(f" of {_format_event_numbers(events)}" if events else " (empty)", MUTED)
    return line


def _shorten_paths(paths: Iterable[str]) -> Iterator[str]:
    """Yield paths without the prefix they share with the path before."""
    before = ""
    for path in paths:
        place, _, rest = path.rpartition(".")
        yield rest if place == before else path
        before = place


def _format_event_numbers(sequences: tuple[int, ...]) -> str:
    numbers = ", ".join(str(sequence) for sequence in sequences)
    return f"event {numbers}" if len(sequences) == 1 else f"events {numbers}"
