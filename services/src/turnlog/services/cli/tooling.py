from __future__ import annotations

from rich.console import Group
from rich.text import Text

from turnlog.services.cli.options import Served
from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.screens.palette import QUIET
from turnlog.services.cli.screens.spelling import counted, harmless, one_line, short
from turnlog.services.cli.sending import sent
from turnlog.services.cli.show import Form, shown
from turnlog.services.gateway.payloads.tools import ToolResultView
from turnlog.services.gateway.payloads.turns import Acted


async def show_result(reader: Reader, session: str, call: str, id: str, form: Form) -> None:
    """Print the full result of a tool use."""
    found = await reader.tool(session, call, id)
    shown(found, _screen(found), form)


def _screen(found: ToolResultView) -> Group:
    asked = Text(one_line(found.tool), "bold").append(f" {one_line(found.arguments)}", "default")
    came = found.outcome or "not come back yet"
    told = " · ".join(filter(None, (came, one_line(found.detail), *_size(found))))
    return Group(asked, Text(told, QUIET), Text(harmless(found.result or "")))


def _size(found: ToolResultView) -> tuple[str, ...]:
    if found.digest is None:
        return ()
    held = "prompts hold a summary of it" if found.treatment == "condensed" else ""
    return counted(found.characters, "character"), f"blob {short(found.digest)}", held


async def request_schemas(served: Served, session: str, form: Form) -> None:
    """Request full tool descriptions for the next turn and print a confirmation."""
    done = await sent(served, "POST", f"/v1/sessions/{session}/schemas", {}, Acted)
    shown(done, Text("the next turn is told of all tools in full"), form)
