from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.events.manifest import BlueprintTextSource, PromptPart
from turnlog.projections.audit.origins import PartProvenance
from turnlog.projections.window.request import ChatMessage
from turnlog.services.cli.screens.margin import render_labelled_text
from turnlog.services.cli.screens.origins import render_origin
from turnlog.services.cli.screens.palette import MUTED, choose_layer_colours
from turnlog.services.cli.screens.passages import split_prompt
from turnlog.services.gateway.payloads.prompts import RecordedPromptView

_STROKE_COLUMNS = 3
"""Columns of the stroke and the blanks beside it."""


def render_traced_prompt(prompt: RecordedPromptView, origins: Sequence[PartProvenance]) -> Iterator[RenderableType]:
    """Yield messages and tools; each part is followed by its origin."""
    colours = choose_layer_colours(prompt.manifest.parts)
    width = max((len(layer) for layer in colours), default=0)
    messages = [ChatMessage(view.role, view.content) for view in prompt.messages]
    said = split_prompt(messages, prompt.manifest) if messages else ()
    by_part = {id(part): each for part, each in zip(prompt.manifest.parts, origins, strict=True)}
    shown = -1
    for part, run in groupby(said, lambda passage: passage.part):
        for passage in run:
            if passage.message_index != shown:
                shown = passage.message_index
                yield Text(f"{shown + 1} {passage.role}", "bold")
            yield render_labelled_text(part.layer, passage.visible_text, colours[part.layer], width, colours[part.layer])
        yield _render_below(render_origin(by_part[id(part)]), width)
    yield from _render_tools(origins, colours, width)


def _render_tools(
    origins: Sequence[PartProvenance], colours: Mapping[str, str], width: int
) -> Iterator[RenderableType]:
    offered = [each for each in origins if each.part.role == "tools"]
    if offered:
        yield Text("tools offered", "bold")
    for each in offered:
        layer = each.part.layer
        yield render_labelled_text(layer, _format_tool(each.part), colours[layer], width, colours[layer])
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
