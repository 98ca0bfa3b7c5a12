from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.events.manifest import FromBlueprint, Part
from turnlog.projections.audit.origins import PartOrigin
from turnlog.projections.window.request import ChatMessage
from turnlog.services.cli.screens.margin import beside
from turnlog.services.cli.screens.origins import came_from
from turnlog.services.cli.screens.palette import QUIET, layer_colours
from turnlog.services.cli.screens.passages import passages
from turnlog.services.gateway.payloads.prompts import PromptView

_STROKE = 3
"""Columns of the stroke and the blanks beside it."""


def traced_prompt(prompt: PromptView, origins: Sequence[PartOrigin]) -> Iterator[RenderableType]:
    """Yield messages and tools; each part is followed by its origin."""
    colours = layer_colours(prompt.manifest.parts)
    width = max((len(layer) for layer in colours), default=0)
    messages = [ChatMessage(view.role, view.content) for view in prompt.messages]
    said = passages(messages, prompt.manifest) if messages else ()
    by_part = {id(part): each for part, each in zip(prompt.manifest.parts, origins, strict=True)}
    shown = -1
    for part, run in groupby(said, lambda passage: passage.part):
        for passage in run:
            if passage.message != shown:
                shown = passage.message
                yield Text(f"{shown + 1} {passage.role}", "bold")
            yield beside(part.layer, passage.drawn, colours[part.layer], width, colours[part.layer])
        yield _below(came_from(by_part[id(part)]), width)
    yield from _tools(origins, colours, width)


def _tools(
    origins: Sequence[PartOrigin], colours: Mapping[str, str], width: int
) -> Iterator[RenderableType]:
    offered = [each for each in origins if each.part.role == "tools"]
    if offered:
        yield Text("tools offered", "bold")
    for each in offered:
        layer = each.part.layer
        yield beside(layer, _spelt(each.part), colours[layer], width, colours[layer])
        yield _below(came_from(each), width)


def _spelt(part: Part) -> str:
    """Return a tool's description and parameters, or its text unchanged if it has another form."""
    text = part.source.text if isinstance(part.source, FromBlueprint) else ""
    try:
        function = json.loads(text)["function"]
        takes = function["parameters"]["properties"].items()
        lines = [f"{name}: {', '.join(taken.get('enum', ['any']))}" for name, taken in takes]
        return "\n".join([function["description"], *lines])
    except (ValueError, LookupError, TypeError, AttributeError):
        return text


def _below(origin: Text, width: int) -> Table:
    """Render an origin below its text, indented past the label and the stroke."""
    grid = Table.grid(padding=0)
    grid.add_column(width=width + _STROKE)
    grid.add_column(width=2)
    grid.add_column(overflow="fold")
    grid.add_row("", Text("└ ", QUIET), origin)
    return grid
