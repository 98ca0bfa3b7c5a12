from __future__ import annotations

from typing import Final

from rich.box import Box
from rich.table import Table
from rich.text import Text

from turnlog.services.cli.screens.spelling import escape_controls

_STROKE_BOX: Final = Box("    \n  ▌ \n    \n  ▌ \n    \n    \n  ▌ \n    \n")
"""A box that draws only a stroke between two columns."""


def render_labelled_text(label: str, text: str, colour: str, width: int, style: str = "") -> Table:
    """Render a text beside a label of `width` columns, with a stroke at every line."""
    table = Table(box=_STROKE_BOX, show_header=False, show_edge=False, border_style=colour)
    table.add_column(width=width, justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(Text(label, f"bold {colour}"), Text(escape_controls(text), style))
    return table
