"""A chat at the terminal: a line is a turn, Ctrl-C cancels it, Ctrl-D leaves.

Reading a line blocks, so the event loop runs only while a turn is being answered; between turns the
terminal handles Ctrl-C. Echo is off while a reply is shown, so that typed keys do not appear in the
middle of it; they are kept for the next line.
"""

from __future__ import annotations

import sys
import termios
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_LOCAL_MODES: Final = 3
"""Index of the local modes among the attributes of a terminal."""


@contextmanager
def suppress_echo() -> Generator[None]:
    """Turn off the echo of the terminal; without a terminal do nothing."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    silent = [*before]
    silent[_LOCAL_MODES] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
