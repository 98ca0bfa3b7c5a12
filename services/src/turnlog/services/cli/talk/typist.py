"""A reply shown on a terminal while it is streamed.

A word is held back until it is complete, so that it can be wrapped whole. The layout is that of
`render_labelled_text`, so a streamed reply looks like one that is shown later.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from turnlog.services.cli.screens.spelling import harmless, one_line

_PIECES: Final = re.compile(r"\n|[^\S\n]+|\S+")
_EDGE: Final = 5
"""Columns taken by the blanks and the stroke."""


@dataclass
class Typist:
    """Writes one text beside a label."""

    console: Console
    label: str
    colour: str
    width: int
    """Columns of the label."""
    _held: str = field(default="", init=False)
    _column: int = field(default=-1, init=False)
    """Columns of text on the current line; -1 before the first line."""
    _above: int = field(default=0, init=False)
    """Lines written above the current one."""

    @property
    def has_said(self) -> bool:
        """Whether any text was given since it began."""
        return self._column >= 0 or bool(self._held)

    def say(self, text: str) -> None:
        """Write a piece of text; its last word is held back until it is complete."""
        pieces = _PIECES.findall(self._held + text)
        whole = pieces if not pieces or pieces[-1].isspace() else pieces[:-1]
        self._held = "".join(pieces[len(whole) :])
        for piece in whole:
            self._type(harmless(piece))

    def end(self, remark: str = "", colour: str = "") -> None:
        """Write the held-back text and a remark if there is one, and end the line."""
        self._type(harmless(self._held))
        self._held = ""
        if remark:
            self._type(" " if self._column > 0 else "")
            self._write(one_line(remark), colour)
        self.console.print()

    def take_back(self) -> None:
        """Erase the text on a terminal; elsewhere the written text stays."""
        self._held = ""
        if self._column < 0:
            return
        if not self.console.is_terminal:
            self.end()
            return
        line = ((ControlType.ERASE_IN_LINE, 2), (ControlType.CARRIAGE_RETURN,))
        up = ((ControlType.CURSOR_UP, 1), *line)
        self.console.control(Control(*line, *(up * self._above)))
        self._column, self._above = -1, 0

    def _type(self, piece: str) -> None:
        if self._column < 0:
            self._line(self.label)
        if piece == "\n":
            self._next_line()
            return
        room = self.console.width - self.width - _EDGE
        if self._column + cell_len(piece) <= room:
            self._write(piece, "")
            return
        for place, line in enumerate(chop_cells(piece.lstrip(), room)):
            if place or self._column:
                self._next_line()
            self._write(line, "")

    def _next_line(self) -> None:
        self.console.print()
        self._above += 1
        self._line("")

    def _line(self, label: str) -> None:
        self._write(f" {label.rjust(self.width)} ", f"bold {self.colour}")
        self._write("▌ ", self.colour)
        self._column = 0

    def _write(self, text: str, style: str) -> None:
        self.console.print(Text(text, style), end="", soft_wrap=True)
        self._column += cell_len(text)
