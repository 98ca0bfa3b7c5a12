"""Proving that rows and log belong together, before anything is folded.

A log that was lost, replaced or rolled back is another history, whatever its sequences say.
Folding it onto the rows of the old one would mix the two beyond repair, so the projector stops
instead and says what an operator can do. A log that only seems too short is looked at again for
a while: right after an election a leader may not know its own end.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Final

from turnlog.events.content import digest_of
from turnlog.events.errors import Corrupt
from turnlog.events.log.ports import Log, Raw
from turnlog.projections.store.checkpoints import Checkpoint

LOOK_EVERY: Final = 0.2
"""Seconds between looks at a log that seems too short."""
_FIX: Final = "bring that log back, or run `turnlog rebuild` to have rows of this one"


async def prove(log: Log, tenant: str, at: Checkpoint, *, patience: float) -> None:
    """Raise `Corrupt` unless the log still holds the very event the checkpoint names."""
    now = await log.identity(tenant)
    if now != at.log:
        told = f"the rows come from {at.log.stream} made at {at.log.created}"
        raise Corrupt("log", f"{told}, this is {now.stream} made at {now.created}: {_FIX}")
    if at.position == 0:
        return
    found = await _sought(log, at.position, patience)
    if found is None:
        raise Corrupt("log", f"it ends before {at.position}, where the rows are: {_FIX}")
    prove_same(found, at)


def prove_same(found: Raw, at: Checkpoint) -> None:
    """Raise `Corrupt` unless this is the event the checkpoint names."""
    if found.stream_sequence != at.position or digest_of(found.stored) != at.hash:
        raise Corrupt("log", f"it holds another event at {at.position} than the rows: {_FIX}")


async def _sought(log: Log, position: int, patience: float) -> Raw | None:
    clock = asyncio.get_running_loop()
    until = clock.time() + patience
    while True:
        found = await _behind(log, position - 1)
        if found is not None or clock.time() >= until:
            return found
        await asyncio.sleep(LOOK_EVERY)


async def _behind(log: Log, position: int) -> Raw | None:
    async with aclosing(log.follow(None, position, live=False)) as bulks:
        async for bulk in bulks:
            return bulk[0]
    return None
