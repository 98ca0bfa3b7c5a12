"""A session's memory on a terminal: messages, references, summaries and purges."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.services.cli.reader.reader import ServiceReader
from turnlog.services.cli.screens.history import REPLY_COLOUR, USER_COLOUR, LABEL_WIDTH
from turnlog.services.cli.screens.margin import render_labelled_text
from turnlog.services.cli.screens.palette import MUTED, WARNING
from turnlog.services.cli.screens.spelling import format_one_line
from turnlog.services.cli.show import OutputFormat, print_answer
from turnlog.services.gateway.payloads.asked import ResolveReferencesRequest
from turnlog.services.gateway.payloads.asking import ResolvedReferencesView, MemoryView


async def print_memory(
    reader: ServiceReader, session: str, audience: str | None, entity: str | None, output: OutputFormat
) -> None:
    """Print the messages of earlier turns that a turn would include."""
    memory = await reader.fetch_memory(session, audience, entity)
    print_answer(memory, _render_memory(memory), output)


async def print_references(reader: ServiceReader, session: str, output: OutputFormat) -> None:
    """Print the identifiers of the last reference."""
    found = await reader.fetch_references(session)
    last = found.last_reference
    screen = _format_pairs(last) if last else Text("nothing was spoken of yet", MUTED)
    print_answer(found, screen, output)


async def print_resolved_reference(
    reader: ServiceReader,
    session: str,
    intent: str,
    entity: str | None,
    identifiers: Mapping[str, JsonValue],
    output: OutputFormat,
) -> None:
    """Print what a reference with this intent and entity resolves to."""
    asked = ResolveReferencesRequest(intent=intent, entity=entity, identifiers=dict(identifiers))
    found = await reader.resolve_reference(session, asked)
    print_answer(found, _render_resolved_reference(found), output)


def _render_memory(memory: MemoryView) -> RenderableType:
    lines: list[RenderableType] = [Text(format_one_line(warning), WARNING) for warning in memory.warnings]
    for message in memory.messages:
        asked = message["role"] == "user"
        label, colour = ("you", USER_COLOUR) if asked else ("reply", REPLY_COLOUR)
        lines.append(render_labelled_text(label, str(message["content"]), colour, LABEL_WIDTH))
    if not memory.messages:
        why = "nothing would be told" if memory.enabled else "nothing is remembered"
        lines.append(Text(why, MUTED))
    return Group(*lines)


def _render_resolved_reference(found: ResolvedReferencesView) -> RenderableType:
    means = _format_pairs(found.identifiers) if found.identifiers else Text("nothing", MUTED)
    return Group(means, Text(found.reason, MUTED))


def _format_pairs(values: Mapping[str, JsonValue]) -> Text:
    lines = (f"{format_one_line(name)}  {format_one_line(str(value))}" for name, value in values.items())
    return Text("\n".join(lines))
