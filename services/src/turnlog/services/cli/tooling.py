from __future__ import annotations

from rich.console import Group
from rich.text import Text

from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.reader.reader import ServiceReader
from turnlog.services.cli.screens.palette import MUTED
from turnlog.services.cli.screens.spelling import format_count, escape_controls, format_one_line, format_digest
from turnlog.services.cli.sending import send_command
from turnlog.services.cli.show import OutputFormat, print_answer
from turnlog.services.gateway.payloads.tools import ToolResultView
from turnlog.services.gateway.payloads.turns import CommandResult


async def print_tool_result(reader: ServiceReader, session: str, call: str, id: str, output: OutputFormat) -> None:
    """Print the full result of a tool use."""
    found = await reader.fetch_tool_result(session, call, id)
    print_answer(found, _render_tool_result(found), output)


def _render_tool_result(found: ToolResultView) -> Group:
    asked = Text(format_one_line(found.tool), "bold").append(f" {format_one_line(found.arguments)}", "default")
    came = found.outcome or "not come back yet"
    told = " · ".join(filter(None, (came, format_one_line(found.detail), *_describe_result_size(found))))
    return Group(asked, Text(told, MUTED), Text(escape_controls(found.result or "")))


def _describe_result_size(found: ToolResultView) -> tuple[str, ...]:
    if found.digest is None:
        return ()
    held = "prompts hold a summary of it" if found.treatment == "condensed" else ""
    return format_count(found.characters, "character"), f"blob {format_digest(found.digest)}", held


async def send_schema_request(target: ServiceTarget, session: str, output: OutputFormat) -> None:
    """Request full tool descriptions for the next turn and print a confirmation."""
    done = await send_command(target, "POST", f"/v1/sessions/{session}/schemas", {}, CommandResult)
    print_answer(done, Text("the next turn is told of all tools in full"), output)
