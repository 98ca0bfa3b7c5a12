"""The origin of prompt parts on a terminal: source, event, template values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.text import Text

from turnlog.events.kinds import KINDS, name_of
from turnlog.events.library import LIBRARY_KINDS
from turnlog.events.manifest import (
    FromEvent,
    FromResolved,
    FromSegment,
    FromTurns,
    Part,
    Source,
)
from turnlog.projections.audit.origins import Cause, Filled, PartOrigin, Removed
from turnlog.services.cli.screens.palette import FAMILIES, QUIET, UNKNOWN, WARY
from turnlog.services.cli.screens.prompt import source
from turnlog.services.cli.screens.spelling import clock, counted, one_line

_LIBRARY: Final = frozenset(map(name_of, LIBRARY_KINDS))
"""Names of the segment library's events."""
_COLOURS = {
    kind.type.split(".")[1]: FAMILIES[kind.leaf.partition(".")[0]] for kind in KINDS.values()
} | dict.fromkeys(_LIBRARY, FAMILIES["prompt"])
"""Colour of each event name, by its family."""
_NAMED: Final = 2
"""Up to this many events are named one by one."""


def caused(cause: Cause) -> Text:
    """Render an event with its time and actor."""
    of = "library event" if cause.event in _LIBRARY else "event"
    line = Text(f"{of} {cause.sequence} ", QUIET)
    line.append(one_line(cause.event), _COLOURS.get(cause.event, UNKNOWN))
    return line.append(f" {clock(cause.time)} by {one_line(cause.actor)}", QUIET)


def came_from(origin: PartOrigin) -> Text:
    """Render the origin of a part, one line per fact."""
    return Text("\n").join(_lines(origin))


def _lines(origin: PartOrigin) -> Iterator[Text]:
    part = origin.part
    size = Text(f"{counted(part.tokens, 'token')} · ", QUIET)
    yield size.append_text(source(part.source)).append(_treated(part), QUIET)
    if origin.tool:
        yield Text("given by ", QUIET).append(one_line(origin.tool), "default")
    if origin.by:
        yield Text(f"{_verb(part.source)} ", QUIET).append_text(_held(origin.by))
    if origin.filled:
        yield _filled(origin.filled)
    for each in origin.because if part.treatment == "kept" else ():
        yield Text(f"{part.rule}: ", QUIET).append_text(caused(each))
    yield from map(gone, origin.removed)


def _held(by: Sequence[Cause]) -> Text:
    """Render the events that contain a text; of many, the first and the last."""
    if len(by) <= _NAMED:
        return Text(", ").join(caused(each) for each in by)
    first, last = by[0].sequence, by[-1].sequence
    return Text(f"{len(by)} events, {first} to {last}", QUIET)


def gone(removed: Removed) -> Text:
    """Render what removed a run of turns, with the event behind it."""
    return (
        Text(f"{run(removed.first, removed.last)} ")
        .append(removed.rule, WARY)
        .append(": ", QUIET)
        .append_text(caused(removed.by))
    )


def run(first: int, last: int) -> str:
    """Format a run of turns."""
    return f"turn {first}" if first == last else f"turns {first} to {last}"


def _treated(part: Part) -> str:
    return "" if part.treatment == "kept" else f" · {part.treatment} by {part.rule}"


def _verb(origin: Source | None) -> str:
    match origin:
        case FromSegment():
            return "written in"
        case FromEvent() | FromResolved() | FromTurns():
            return "said in"
        case _:
            return "pinned by"


def _filled(filled: Iterable[Filled]) -> Text:
    """Render the filled-in values, grouped by their events."""
    by_events: dict[tuple[int, ...], list[str]] = {}
    for each in filled:
        by_events.setdefault(tuple(cause.sequence for cause in each.by), []).append(each.path)
    line = Text("with ", QUIET)
    for place, (events, paths) in enumerate(by_events.items()):
        line.append("; " if place else "", QUIET).append(", ".join(_short(paths)), "default")
        line.append(f" of {_events(events)}" if events else " (empty)", QUIET)
    return line


def _short(paths: Iterable[str]) -> Iterator[str]:
    """Yield paths without the prefix they share with the path before."""
    before = ""
    for path in paths:
        place, _, rest = path.rpartition(".")
        yield rest if place == before else path
        before = place


def _events(sequences: tuple[int, ...]) -> str:
    numbers = ", ".join(str(sequence) for sequence in sequences)
    return f"event {numbers}" if len(sequences) == 1 else f"events {numbers}"
