"""Folds the log into the rows of a build; shared by the projector and by rebuilds.

Each step is one transaction that writes rows and position together. A step that finds its position
moved by another process writes nothing and is the last one.

Before anything is folded, rows and log are verified to belong together. A log that was lost,
replaced or rolled back is another history, and folding it into the old rows would mix the two
beyond repair. The projector stops instead and tells the operator what to do. A log that seems too
short is read again for a while, because right after an election a leader may not know its end.

A rebuild fills a new build while readers use the old one. For the last events the old position is
locked, and the same transaction switches readers. A crash at any point leaves the old rows
unchanged; the unfinished build is resumed or cleared later.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Final

from turnlog.events.content import compute_digest
from turnlog.events.errors import Corrupt
from turnlog.events.log.ports import EventLog, RawEvent
from turnlog.projections.store.checkpoints import ProjectionPosition

POLL_SECONDS: Final = 0.2
"""Seconds between reads of a log that seems too short."""
_FIX: Final = "bring that log back, or run `turnlog rebuild` to have rows of this one"


async def verify_log(log: EventLog, tenant: str, at: ProjectionPosition, *, patience: float) -> None:
    """Raise `Corrupt` unless the log still holds the event that the position names."""
    now = await log.get_identity(tenant)
    if now != at.log:
        told = f"the rows come from {at.log.stream} made at {at.log.created}"
        raise Corrupt("log", f"{told}, this is {now.stream} made at {now.created}: {_FIX}")
    if at.position == 0:
        return
    found = await _find_event(log, at.position, patience)
    if found is None:
        raise Corrupt("log", f"it ends before {at.position}, where the rows are: {_FIX}")
    verify_same_event(found, at)


def verify_same_event(found: RawEvent, at: ProjectionPosition) -> None:
    """Raise `Corrupt` unless this is the event that the position names."""
    if found.stream_sequence != at.position or compute_digest(found.stored) != at.hash:
        raise Corrupt("log", f"it holds another event at {at.position} than the rows: {_FIX}")


async def _find_event(log: EventLog, position: int, patience: float) -> RawEvent | None:
    clock = asyncio.get_running_loop()
    until = clock.time() + patience
    while True:
        found = await _read_first_after(log, position - 1)
        if found is not None or clock.time() >= until:
            return found
        await asyncio.sleep(POLL_SECONDS)


async def _read_first_after(log: EventLog, position: int) -> RawEvent | None:
    async with aclosing(log.stream_raw_events(None, position, live=False)) as bulks:
        async for bulk in bulks:
            return bulk[0]
    return None
