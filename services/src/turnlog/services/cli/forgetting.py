from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.events.memory import TurnRange
from turnlog.services.cli.options import Served
from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.screens.history import REPLY, WIDTH
from turnlog.services.cli.screens.margin import beside
from turnlog.services.cli.screens.palette import GOOD, QUIET
from turnlog.services.cli.screens.spelling import spelt_turns
from turnlog.services.cli.sending import sent
from turnlog.services.cli.show import Form, shown
from turnlog.services.gateway.payloads.memory import SummariesView, SummaryView
from turnlog.services.gateway.payloads.turns import Acted


async def show_summaries(reader: Reader, session: str, form: Form) -> None:
    """Print the summaries that are in effect in a session's windows."""
    found = await reader.summaries(session)
    shown(found, _summaries(found), form)


async def undo(served: Served, session: str, sequence: int, form: Form) -> None:
    path = f"/v1/sessions/{session}/summaries/{sequence}/undo"
    done = await sent(served, "POST", path, {}, Acted)
    shown(done, _done(f"windows show again what event {sequence} summed up", done), form)


async def purge(served: Served, session: str, form: Form) -> None:
    done = await sent(served, "POST", f"/v1/sessions/{session}/purge", {}, Acted)
    shown(done, _done("no window shows any turn so far", done), form)


def _done(what: str, done: Acted) -> Text:
    return Text("✓ ", GOOD).append(what, "default").append(f"  event {done.sequence}", QUIET)


def _summaries(found: SummariesView) -> RenderableType:
    lines: list[RenderableType] = []
    for each in found.summaries:
        lines += [_headline(each), beside("", each.text or "(gone)", REPLY, WIDTH)]
    if found.purged:
        lines.append(Text(f"turns up to {found.purged} were purged", QUIET))
    return Group(*lines) if lines else Text("nothing was summed up", QUIET)


def _headline(each: SummaryView) -> Text:
    turns = spelt_turns([TurnRange(first=run.first, last=run.last) for run in each.turns])
    line = Text(f"{each.sequence:>4} ", QUIET).append(f"{each.view}: {turns}", "default")
    return line.append(f"  call {each.call} · {each.model}", QUIET)
