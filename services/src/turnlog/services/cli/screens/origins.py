"""Where a part of a prompt comes from, as people read it: the place, the event, what was put in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

from turnlog.events.kinds import KINDS
from turnlog.events.manifest import FromEvent, FromResolved, Part, Source
from turnlog.projections.audit.origins import Cause, Filled, PartOrigin
from turnlog.services.cli.screens.palette import FAMILIES, QUIET, UNKNOWN
from turnlog.services.cli.screens.prompt import source
from turnlog.services.cli.screens.spelling import clock, counted, one_line

_COLOURS = {
    kind.type.split(".")[1]: FAMILIES[kind.leaf.partition(".")[0]] for kind in KINDS.values()
}
"""Name of an event to the colour of its family."""


def caused(cause: Cause) -> Text:
    """Name an event with its time and whoever it was written for."""
    line = Text(f"event {cause.sequence} ", QUIET)
    line.append(one_line(cause.event), _COLOURS.get(cause.event, UNKNOWN))
    return line.append(f" {clock(cause.time)} by {one_line(cause.actor)}", QUIET)


def came_from(origin: PartOrigin) -> Text:
    """Say where a part's text comes from, on as many lines as there are things to say."""
    return Text("\n").join(_lines(origin))


def _lines(origin: PartOrigin) -> Iterator[Text]:
    part = origin.part
    size = Text(f"{counted(part.tokens, 'token')} · ", QUIET)
    yield size.append_text(source(part.source)).append(_treated(part), QUIET)
    for each in origin.by[:1]:
        yield Text(f"{_verb(part.source)} ", QUIET).append_text(caused(each))
    if origin.filled:
        yield _filled(origin.filled)
    if origin.because:
        yield Text(f"{part.rule}: ", QUIET).append_text(caused(origin.because))


def _treated(part: Part) -> str:
    return "" if part.treatment == "kept" else f" · {part.treatment} by {part.rule}"


def _verb(origin: Source | None) -> str:
    return "said in" if isinstance(origin, FromEvent | FromResolved) else "pinned by"


def _filled(filled: Iterable[Filled]) -> Text:
    """Name what was put in, those of one event together."""
    by_events: dict[tuple[int, ...], list[str]] = {}
    for each in filled:
        by_events.setdefault(tuple(cause.sequence for cause in each.by), []).append(each.path)
    line = Text("with ", QUIET)
    for place, (events, paths) in enumerate(by_events.items()):
        line.append("; " if place else "", QUIET).append(", ".join(_short(paths)), "default")
        line.append(f" of {_events(events)}" if events else " (empty)", QUIET)
    return line


def _short(paths: Iterable[str]) -> Iterator[str]:
    """Spell paths so that a place named before is not named again."""
    before = ""
    for path in paths:
        place, _, rest = path.rpartition(".")
        yield rest if place == before else path
        before = place


def _events(sequences: tuple[int, ...]) -> str:
    numbers = ", ".join(str(sequence) for sequence in sequences)
    return f"event {numbers}" if len(sequences) == 1 else f"events {numbers}"
