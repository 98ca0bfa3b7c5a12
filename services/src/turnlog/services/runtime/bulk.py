"""Reading in bulk: what a process does for once, and as fast as it can.

Python's collector looks at everything alive again and again while thousands of events are made
and dropped, which takes as long as decoding them. What is alive at the start is set aside
meanwhile, and the rest is looked at seldom; nothing is left uncollected.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_SELDOM: Final = (100_000, 50, 100)
"""Objects made before the collector looks at them; the default is hundreds."""


@contextmanager
def seldom_collected() -> Generator[None]:
    """Let the collector of this process look seldom while the body runs."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        if before != _SELDOM:  # else somebody else had it so, and sees to it
            gc.set_threshold(*before)
        gc.unfreeze()
