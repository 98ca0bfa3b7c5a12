"""The keyboard while a reply is being said: what is typed then is not mixed into it.

The terminal would echo it, Ctrl-C included, in the middle of a word. It is kept for the next line.
"""

from __future__ import annotations

import sys
import termios
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_FLAGS: Final = 3
"""Where a terminal's local modes stand among its attributes."""


@contextmanager
def unechoed() -> Generator[None]:
    """Let the terminal show nothing of what is typed; where there is none, nothing changes."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    silent = [*before]
    silent[_FLAGS] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
