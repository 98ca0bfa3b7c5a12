"""A session's memory on a terminal: messages, references, summaries and purges."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.screens.history import REPLY, SAID, WIDTH
from turnlog.services.cli.screens.margin import beside
from turnlog.services.cli.screens.palette import QUIET, WARY
from turnlog.services.cli.screens.spelling import one_line
from turnlog.services.cli.show import Form, shown
from turnlog.services.gateway.payloads.asked import ReferenceForm
from turnlog.services.gateway.payloads.asking import MeantView, MemoryView


async def show_memory(
    reader: Reader, session: str, told: str | None, entity: str | None, form: Form
) -> None:
    """Print the messages of earlier turns that a turn would include."""
    memory = await reader.memory(session, told, entity)
    shown(memory, _memory(memory), form)


async def show_references(reader: Reader, session: str, form: Form) -> None:
    """Print the identifiers of the last reference."""
    found = await reader.references(session)
    last = found.last_reference
    screen = _listed(last) if last else Text("nothing was spoken of yet", QUIET)
    shown(found, screen, form)


async def show_meant(
    reader: Reader,
    session: str,
    intent: str,
    entity: str | None,
    identifiers: Mapping[str, JsonValue],
    form: Form,
) -> None:
    """Print what a reference with this intent and entity resolves to."""
    asked = ReferenceForm(intent=intent, entity=entity, identifiers=dict(identifiers))
    found = await reader.meant(session, asked)
    shown(found, _meant(found), form)


def _memory(memory: MemoryView) -> RenderableType:
    lines: list[RenderableType] = [Text(one_line(warning), WARY) for warning in memory.warnings]
    for message in memory.messages:
        asked = message["role"] == "user"
        label, colour = ("you", SAID) if asked else ("reply", REPLY)
        lines.append(beside(label, str(message["content"]), colour, WIDTH))
    if not memory.messages:
        why = "nothing would be told" if memory.enabled else "nothing is remembered"
        lines.append(Text(why, QUIET))
    return Group(*lines)


def _meant(found: MeantView) -> RenderableType:
    means = _listed(found.identifiers) if found.identifiers else Text("nothing", QUIET)
    return Group(means, Text(found.reason, QUIET))


def _listed(values: Mapping[str, JsonValue]) -> Text:
    lines = (f"{one_line(name)}  {one_line(str(value))}" for name, value in values.items())
    return Text("\n".join(lines))
