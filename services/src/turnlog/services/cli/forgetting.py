from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.events.memory import TurnRange
from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.reader.reader import ServiceReader
from turnlog.services.cli.screens.history import REPLY_COLOUR, LABEL_WIDTH
from turnlog.services.cli.screens.margin import render_labelled_text
from turnlog.services.cli.screens.palette import GOOD, MUTED
from turnlog.services.cli.screens.spelling import format_turn_ranges
from turnlog.services.cli.sending import send_command
from turnlog.services.cli.show import OutputFormat, print_answer
from turnlog.services.gateway.payloads.memory import SummariesView, SummaryView
from turnlog.services.gateway.payloads.turns import CommandResult


async def print_summaries(reader: ServiceReader, session: str, output: OutputFormat) -> None:
    """Print the summaries that are in effect in a session's windows."""
    found = await reader.list_summaries(session)
    print_answer(found, _render_summaries(found), output)


async def send_undo(target: ServiceTarget, session: str, sequence: int, output: OutputFormat) -> None:
    path = f"/v1/sessions/{session}/summaries/{sequence}/undo"
    done = await send_command(target, "POST", path, {}, CommandResult)
    print_answer(done, _render_confirmation(f"windows show again what event {sequence} summed up", done), output)


async def send_purge(target: ServiceTarget, session: str, output: OutputFormat) -> None:
    done = await send_command(target, "POST", f"/v1/sessions/{session}/purge", {}, CommandResult)
    print_answer(done, _render_confirmation("no window shows any turn so far", done), output)


def _render_confirmation(what: str, done: CommandResult) -> Text:
    return Text("✓ ", GOOD).append(what, "default").append(f"  event {done.sequence}", MUTED)


def _render_summaries(found: SummariesView) -> RenderableType:
    lines: list[RenderableType] = []
    for each in found.summaries:
        lines += [_render_summary_heading(each), render_labelled_text("", each.text or "(gone)", REPLY_COLOUR, LABEL_WIDTH)]
    if found.purged:
        lines.append(Text(f"turns up to {found.purged} were purged", MUTED))
    return Group(*lines) if lines else Text("nothing was summed up", MUTED)


def _render_summary_heading(each: SummaryView) -> Text:
    turns = format_turn_ranges([TurnRange(first=run.first, last=run.last) for run in each.turns])
    line = Text(f"{each.sequence:>4} ", MUTED).append(f"{each.view}: {turns}", "default")
    return line.append(f"  call {each.call} · {each.model}", MUTED)
