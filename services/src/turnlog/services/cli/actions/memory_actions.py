"""A session's memory on a terminal: messages, references, summaries and purges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.client import ClientOperation
from turnlog.client.operations import build_read
from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.contract.memory_payloads import (
    ExclusionPreviewView,
    ReferencesView,
    ResolvedReferencesView,
    SummariesView,
    SummaryView,
    TurnRangeView,
)
from turnlog.events.model.memory_events import TurnRange
from turnlog.services.api.memory_view_payloads import MemoryView
from turnlog.services.cli.views.session_view import LABEL_WIDTH, REPLY_COLOUR, USER_COLOUR
from turnlog.services.cli.views.text_format import (
    format_cost_sum,
    format_one_line,
    format_turn_ranges,
)
from turnlog.services.cli.views.theme import MUTED, WARNING, render_labelled_text

_MESSAGE_LABELS: Final = {
    "user": ("you", USER_COLOUR),
    "assistant": ("reply", REPLY_COLOUR),
    "system": ("system", MUTED),
}
"""Label and colour of a message, by its role."""


def render_memory(memory: MemoryView) -> RenderableType:
    """Render the messages of earlier turns that a turn would include."""
    lines: list[RenderableType] = [
        Text(format_one_line(warning), WARNING) for warning in memory.warnings
    ]
    for message in memory.messages:
        label, colour = _MESSAGE_LABELS[message.role]
        lines.append(render_labelled_text(label, message.content, colour, LABEL_WIDTH))
    if not memory.messages:
        notice = "nothing would be told" if memory.enabled else "nothing is remembered"
        lines.append(Text(notice, MUTED))
    return Group(*lines)


def fetch_references(session: str) -> ClientOperation[ReferencesView]:
    """Fetch the last reference."""
    return build_read(format_path(api_paths.REFERENCES, session=session), ReferencesView)


def render_references(found: ReferencesView) -> RenderableType:
    """Render the identifiers of the last reference."""
    last = found.last_reference
    return _format_pairs(last) if last else Text("nothing was spoken of yet", MUTED)


def render_resolved_reference(found: ResolvedReferencesView) -> RenderableType:
    """Render what a reference resolves to."""
    means = _format_pairs(found.identifiers) if found.identifiers else Text("nothing", MUTED)
    return Group(means, Text(found.reason, MUTED))


def _format_pairs(values: Mapping[str, JsonValue]) -> Text:
    lines = (
        f"{format_one_line(name)}  {format_one_line(str(value))}" for name, value in values.items()
    )
    return Text("\n".join(lines))


def render_exclusion_preview(found: ExclusionPreviewView) -> RenderableType:
    """Render what excluding a turn would undo, and what it costs to write that again."""
    if not found.undone:
        return Text(f"no summary covers turn {found.turn}; excluding it undoes none")
    shown = (
        f"windows of {each.view} show again {_format_ranges(each.turns)}"
        for each in found.uncovered
    )
    known = format_cost_sum(found.cost)
    cost = f"cost {known}" if known else "have no known cost"
    note = f"these summaries {cost}; the next turn may have them written again without the turn"
    return Group(
        Text(f"excluding turn {found.turn} undoes"),
        *map(_render_summary_heading, found.undone),
        *map(Text, shown),
        Text(note, MUTED),
    )


def render_summaries(found: SummariesView) -> RenderableType:
    """Render the summaries that are in effect in a session's windows."""
    lines: list[RenderableType] = []
    included = {each.former: each.sequence for each in found.summaries if each.former is not None}
    for each in found.summaries:
        heading = _render_summary_heading(each)
        if each.sequence in included:
            heading.append(f" · continued by {included[each.sequence]}", MUTED)
        lines += [
            heading,
            render_labelled_text("", each.text or "(gone)", REPLY_COLOUR, LABEL_WIDTH),
        ]
    if found.purged:
        lines.append(Text(f"turns up to {found.purged} were purged", MUTED))
    return Group(*lines) if lines else Text("nothing was summed up", MUTED)


def _format_ranges(turns: Iterable[TurnRangeView]) -> str:
    return format_turn_ranges([TurnRange(first=run.first, last=run.last) for run in turns])


def _render_summary_heading(each: SummaryView) -> Text:
    turns = _format_ranges(each.turns)
    line = Text(f"{each.sequence:>4} ", MUTED).append(f"{each.view}: {turns}", "default")
    return line.append(f"  call {each.call} · {each.model}", MUTED)
