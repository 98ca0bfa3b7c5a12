from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.services.cli.screens.palette import MUTED
from turnlog.services.demo.stage import DemoLocation


def render_next_steps(where: DemoLocation, session: str, commands: Iterable[str]) -> RenderableType:
    """Render the addresses and the suggested commands, ready to paste."""
    places = Table.grid(padding=(0, 2))
    places.add_column(style=MUTED, justify="right")
    places.add_row("page", Text(f"{where.http}/", "bold"))
    places.add_row("HTTP", f"{where.http}/v1/sessions/{session}")
    places.add_row("data", str(where.data_dir))
    proposed = [Text().append("  $ ", MUTED).append(command) for command in commands]
    return Group(places, Text(), *proposed, Text("\nCtrl-C ends everything.", MUTED))
