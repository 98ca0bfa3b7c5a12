"""Where the command line writes: answers to standard output, everything else to standard error.

Colour is for terminals; rich leaves it out where there is none, and where `NO_COLOR` is set.
Standard output stays clean for whoever reads it by program.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Final

from pydantic import JsonValue
from rich.console import Console

UNWATCHED_WIDTH: Final = 100
"""Columns when nobody's terminal says how many there are."""
_ESCAPED: Final = {code: f"\\u{code:04x}" for code in range(127, 160)}
"""Characters that steer a terminal and that JSON would let pass."""


def answers() -> Console:
    """Make the console for what was asked for."""
    return _console(stderr=False)


def remarks() -> Console:
    """Make the console for errors and progress."""
    return _console(stderr=True)


def print_json(value: JsonValue) -> None:
    """Write one value for a program: a line when it is piped, laid out for a terminal."""
    indent = 2 if sys.stdout.isatty() else None
    spelt = json.dumps(value, ensure_ascii=False, indent=indent)
    sys.stdout.write(spelt.translate(_ESCAPED) + "\n")
    sys.stdout.flush()


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, emoji=False, markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = UNWATCHED_WIDTH
    return console
