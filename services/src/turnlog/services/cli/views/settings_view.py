"""The settings of each role on a terminal, or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal

from rich.table import Table
from rich.text import Text

from turnlog.services.cli.console import create_output_console, print_json
from turnlog.services.cli.environment import EffectiveSetting
from turnlog.services.cli.views.theme import MUTED


def print_settings(settings: Sequence[EffectiveSetting], output: Literal["table", "json"]) -> None:
    """Print settings as a table or as JSON."""
    if output == "json":
        print_json([asdict(each) for each in settings])
    else:
        create_output_console().print(render_settings(settings))


def render_settings(settings: Sequence[EffectiveSetting]) -> Table:
    """Render settings as a table in which changed ones are bold."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=MUTED, pad_edge=False)
    for title in ("setting", "value", "from", "read by"):
        table.add_column(title, overflow="fold")
    for each in settings:
        style = MUTED if each.origin == "default" else "bold"
        value = "" if each.value is None else str(each.value)
        readers = ", ".join(each.processes)
        table.add_row(each.setting, Text(value, style), Text(each.origin, style), readers)
    return table
