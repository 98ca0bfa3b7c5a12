"""Control of Python's cyclic garbage collector.

A full collection looks at every object, which takes a tenth of a second in a service and more where
litellm is loaded; requests wait meanwhile. While thousands of events are decoded and dropped,
collections take as long as the decoding. Long-lived objects are therefore frozen, and collections
are paused or made rare only while a bounded body runs.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

# Median of five alternating runs, by processor time: decoding and folding 32,880 events that are
# all kept, as a verifier keeps those of its sessions, takes twice as long with the default
# thresholds as with rare collections, and 2.3 times as long as with none (12,100, 24,000 and 27,600
# events/s). Where nothing is kept there is no difference. A full collection takes 162 ms in a
# process that has imported litellm, and below 0.1 ms once its objects are frozen. A start creates
# little but what stays: rare collections save a seventh of its processor time.

_RARE_COLLECTION: Final = (100_000, 50, 100)
"""Collector thresholds; the first counts new objects, by default hundreds."""

SERVING_COLLECTION: Final = (5_000, 10, 10)
"""The thresholds of a process that has started.

With the default of 700 the collector took 1.5 s of the 11.0 s of processor time of 1,600 turns in
16 sessions, with 12 full collections of 58 ms; with this one it takes 0.5 s, and none is full.
"""


@dataclass(slots=True)
class CollectorState:
    """What this process has made of the collector, which is one for all bodies."""

    is_frozen: bool = False
    """Whether what has started is frozen for as long as the process runs. The collector itself
    walks all that is frozen to answer: 50 ms in a process that has imported litellm.
    """
    bodies: int = 0
    """How many bodies run that want rare collections."""
    usual: tuple[int, int, int] = (0, 0, 0)
    """The thresholds from before the first of them."""


COLLECTOR: Final = CollectorState()


def freeze_live_objects() -> None:
    """Freeze all live objects, after a process has started or loaded what it keeps."""
    gc.freeze()
    COLLECTOR.is_frozen = True


@contextmanager
def pause_collection() -> Generator[None]:
    """Disable the collector while the body runs.

    Reference cycles stay in memory meanwhile, so the body is one session and not a whole log.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def reduce_collection() -> Generator[None]:
    """Run the collector rarely while the body runs."""
    if not COLLECTOR.bodies:
        COLLECTOR.usual = gc.get_threshold()
        if not COLLECTOR.is_frozen:
            gc.freeze()
    COLLECTOR.bodies += 1
    gc.set_threshold(*_RARE_COLLECTION)
    try:
        yield
    finally:
        COLLECTOR.bodies -= 1
        # Bodies overlap: a rebuild begins while its process starts, and ends long after that.
        if not COLLECTOR.bodies:
            gc.set_threshold(*COLLECTOR.usual)
            if not COLLECTOR.is_frozen:
                gc.unfreeze()


def _set_usual_thresholds(thresholds: tuple[int, int, int]) -> None:
    """Set the thresholds for whenever no body runs that wants rare collections."""
    COLLECTOR.usual = thresholds
    if not COLLECTOR.bodies:
        gc.set_threshold(*thresholds)


@contextmanager
def reduce_start_collection() -> Generator[Callable[[], None]]:
    """Run the collector rarely while a process starts; yield what ends this once it has started.

    Ending it freezes all live objects and makes collections less frequent for good. A start that
    fails ends it with the body.
    """
    with ExitStack() as start:
        start.enter_context(reduce_collection())

        def freeze_started() -> None:
            start.close()
            freeze_live_objects()
            _set_usual_thresholds(SERVING_COLLECTION)

        yield freeze_started
