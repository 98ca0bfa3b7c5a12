"""The origin of prompt parts on a terminal: source, event, template values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.events.model.manifest import (
    BlueprintTextSource,
    EventTextSource,
    HistorySource,
    KnowledgeSource,
    ParentInputSource,
    PartRole,
    PartSource,
    PromptPart,
    ResolutionSource,
    SegmentSource,
)
from turnlog.events.model.retrieval_events import CandidateVote
from turnlog.events.registry import LIBRARY_EVENT_TYPES, format_event_name
from turnlog.projections.audit.explain.part_provenance import (
    EventRef,
    FilledValue,
    PartProvenance,
    RemovedTurns,
)
from turnlog.services.api.prompt_payloads import RecordedPromptView
from turnlog.services.cli.views.prompt_view import (
    describe_output_request,
    render_source,
    split_prompt,
)
from turnlog.services.cli.views.text_format import (
    format_count,
    format_excerpt,
    format_one_line,
    format_time,
)
from turnlog.services.cli.views.theme import (
    MUTED,
    WARNING,
    choose_layer_colours,
    get_family_colour,
    render_labelled_text,
)

_LIBRARY_EVENTS: Final = frozenset(map(format_event_name, LIBRARY_EVENT_TYPES))
"""Names of the segment library's events."""

_SHOWN_QUERY: Final = 80
"""Characters that are shown of a query."""

_MAX_NAMED: Final = 2
"""Up to this many events are named one by one."""


def render_cause(cause: EventRef) -> Text:
    """Render an event with its time and actor."""
    of = "library event" if cause.event in _LIBRARY_EVENTS else "event"
    line = Text(f"{of} {cause.sequence} ", MUTED)
    line.append(format_one_line(cause.event), get_family_colour(cause.event))
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
    if origin.query:
        query = format_one_line(origin.query)[:_SHOWN_QUERY]
        writer = f" · written by call {origin.query_call}" if origin.query_call else ""
        yield Text("found by ", MUTED).append(query, "default").append(writer, MUTED)
    if origin.feedback:
        yield Text("votes ", MUTED).append(f"{origin.feedback:+}", "default")
    yield from render_votes(origin.votes, origin.more_votes)
    if origin.by:
        yield Text(f"{_choose_verb(part.source)} ", MUTED).append_text(
            _render_source_events(origin.by)
        )
    if origin.filled:
        yield _render_filled(origin.filled)
    for each in origin.because if part.treatment == "kept" else ():
        yield Text(f"{part.rule}: ", MUTED).append_text(render_cause(each))
    yield from map(render_removal, origin.removed)


def render_votes(votes: Sequence[CandidateVote], more: int) -> Iterator[Text]:
    """Render the votes on a retrieved entry, each with its event, and the number of older ones."""
    for each in votes:
        what = f"voted {each.vote:+}" if each.vote else "took a vote back"
        by = f" by session {format_one_line(each.session)}, event {each.sequence}"
        yield Text(what, "default").append(by, MUTED)
    if more:
        yield Text(f"and {format_count(more, 'older vote')}", MUTED)


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
    if part.treatment == "kept":
        return describe_output_request(part)
    return f" · {part.treatment} by {part.rule}"


def _choose_verb(origin: PartSource | None) -> str:
    match origin:
        case SegmentSource():
            return "written in"
        case EventTextSource() | ResolutionSource() | HistorySource():
            return "said in"
        case KnowledgeSource():
            return "retrieved in"
        case ParentInputSource():
            return "handed on in"
        case _:
            return "pinned by"


def _render_filled(filled: Iterable[FilledValue]) -> Text:
    by_events: dict[tuple[int, ...], list[str]] = {}
    for each in filled:
        by_events.setdefault(tuple(cause.sequence for cause in each.by), []).append(each.path)
    line = Text("with ", MUTED)
    for place, (events, paths) in enumerate(by_events.items()):
        line.append("; " if place else "", MUTED).append(
            ", ".join(_shorten_paths(paths)), "default"
        )
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


_STROKE_COLUMNS = 3
"""Columns of the stroke and the blanks beside it."""


def render_traced_prompt(
    prompt: RecordedPromptView,
    origins: Sequence[PartProvenance],
    most_characters: int | None = None,
) -> Iterator[RenderableType]:
    """Yield messages and tools; each part is followed by its origin.

    Of each text at most `most_characters` are shown; all of it without them.
    """
    colours = choose_layer_colours(prompt.manifest.parts)
    width = max((len(layer) for layer in colours), default=0)
    messages = [view.restore_message() for view in prompt.messages]
    spans = split_prompt(messages, prompt.manifest) if messages else ()
    by_part = {id(part): each for part, each in zip(prompt.manifest.parts, origins, strict=True)}
    last_index = -1
    for part, run in groupby(spans, lambda passage: passage.part):
        for passage in run:
            if passage.message_index != last_index:
                last_index = passage.message_index
                yield Text(f"{last_index + 1} {passage.role}", "bold")
            yield render_labelled_text(
                label=part.layer,
                text=format_excerpt(passage.visible_text, most_characters),
                colour=colours[part.layer],
                width=width,
                style=colours[part.layer],
            )
        yield _render_below(render_origin(by_part[id(part)]), width)
    yield from _render_beside(
        heading="tools offered", role="tools", origins=origins, colours=colours, width=width
    )
    yield from _render_beside(
        heading="response format",
        role="response_format",
        origins=origins,
        colours=colours,
        width=width,
    )


def _render_beside(
    heading: str,
    role: PartRole,
    origins: Sequence[PartProvenance],
    colours: Mapping[str, str],
    width: int,
) -> Iterator[RenderableType]:
    """Render what is sent beside the messages."""
    offered = [each for each in origins if each.part.role == role]
    if offered:
        yield Text(heading, "bold")
    for each in offered:
        layer = each.part.layer
        yield render_labelled_text(
            label=layer,
            text=_format_tool(each.part),
            colour=colours[layer],
            width=width,
            style=colours[layer],
        )
        yield _render_below(render_origin(each), width)


def _format_tool(part: PromptPart) -> str:
    """Return a tool's description and parameters, or its text unchanged if it has another form."""
    text = part.source.text if isinstance(part.source, BlueprintTextSource) else ""
    try:
        function = json.loads(text)["function"]
        takes = function["parameters"]["properties"].items()
        lines = [f"{name}: {', '.join(taken.get('enum', ['any']))}" for name, taken in takes]
        return "\n".join([function["description"], *lines])
    except (ValueError, LookupError, TypeError, AttributeError):
        return text


def _render_below(origin: Text, width: int) -> Table:
    """Render an origin below its text, indented past the label and the stroke."""
    grid = Table.grid(padding=0)
    grid.add_column(width=width + _STROKE_COLUMNS)
    grid.add_column(width=2)
    grid.add_column(overflow="fold")
    grid.add_row("", Text("└ ", MUTED), origin)
    return grid
