"""Python's collector: what it need not look at again and again, and when it had better wait.

It looks at everything alive, which takes a tenth of a second in a service and more where litellm is
loaded; nobody is answered meanwhile. Reading in bulk, where thousands of events are made and
dropped, it takes as long as decoding them. What is there to stay is set aside, and nothing is left
uncollected that comes and goes.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_SELDOM: Final = (100_000, 50, 100)
"""Objects made before the collector looks at them; the default is hundreds."""


def settled() -> None:
    """Set aside for good what is alive now: a process has started, or loaded what it stays with."""
    gc.freeze()


@contextmanager
def uncollected() -> Generator[None]:
    """Let the collector of this process rest while the body runs, which leaves nothing to collect.

    What refers to itself stays for so long: a body is one session and not a whole log.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def seldom_collected() -> Generator[None]:
    """Let the collector of this process look seldom while the body runs."""
    before, aside = gc.get_threshold(), gc.get_freeze_count()
    if not aside:
        gc.freeze()
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        if before != _SELDOM:  # else somebody else had it so, and sees to it
            gc.set_threshold(*before)
        if not aside:  # else it stays so for as long as the process lasts
            gc.unfreeze()
