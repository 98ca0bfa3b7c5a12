"""What to do next: the addresses, and three commands that can be pasted as they are."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.services.cli.screens.palette import QUIET


def invitation(http: str, data_dir: Path, session: str, program: str) -> RenderableType:
    """Say where everything is and what can be asked of it; `program` is how this one was called."""
    places = Table.grid(padding=(0, 2))
    places.add_column(style=QUIET, justify="right")
    places.add_row("page", Text(f"{http}/", "bold"))
    places.add_row("HTTP", f"{http}/v1/sessions/{session}")
    places.add_row("data", str(data_dir))
    commands = [Text().append("  $ ", QUIET).append(each) for each in _next(http, session, program)]
    return Group(places, Text(), *commands, Text("\nCtrl-C ends everything.", QUIET))


def _next(http: str, session: str, program: str) -> tuple[str, ...]:
    turnlog = shlex.quote(program)
    indent = " \\\n      "
    curl = (
        f"curl -N {http}/v1/sessions/{session}/turns",
        "-H 'Accept: text/event-stream' -H 'Content-Type: application/json'",
        """-d '{"text": "What do you see of us?"}'""",
    )
    return (
        indent.join(curl),
        f"{turnlog} chat {session} --url {http}",
        f"{turnlog} prompt {session} 2.1 --url {http}",
    )
