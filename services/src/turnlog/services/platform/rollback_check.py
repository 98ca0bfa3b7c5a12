"""Whether the log still holds the event that the rows were folded up to.

A log that was rolled back or exchanged must stop the projector before it folds anything, and the
gateway before it appends anything.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Final, Protocol

from turnlog.events.content import Digest, compute_digest
from turnlog.events.errors import LogRolledBack, StreamHole
from turnlog.events.store.ports import EventLog, LogIdentity, RawEvent

POLL_SECONDS: Final = 0.2
"""Seconds between reads of a log that seems too short."""

_FIX: Final = "restore that log, or run `turnlog rebuild` to build rows from this one"


class FoldedPosition(Protocol):
    """The log that rows are folded from, and the last event folded."""

    @property
    def log(self) -> LogIdentity: ...
    @property
    def position(self) -> int: ...
    @property
    def hash(self) -> Digest | None: ...


async def verify_log(log: EventLog, tenant: str, at: FoldedPosition, *, patience: float) -> None:
    """Raise `LogRolledBack` unless the log still holds the event that the position names."""
    now = await log.get_identity(tenant)
    if now != at.log:
        detail = f"the rows come from {at.log.stream} made at {at.log.created}"
        raise LogRolledBack("log", f"{detail}, this is {now.stream} made at {now.created}: {_FIX}")
    if at.position == 0:
        return
    try:
        found = await _find_event(log, at.position, patience)
    except StreamHole as hole:
        raise LogRolledBack(hole.where, hole.detail) from hole
    if found is None:
        detail = f"it ends before {at.position}, up to which the rows were built"
        raise LogRolledBack("log", f"{detail}: {_FIX}")
    verify_same_event(found, at)


def verify_same_event(found: RawEvent, at: FoldedPosition) -> None:
    """Raise `LogRolledBack` unless this is the event that the position names."""
    if found.stream_sequence != at.position or compute_digest(found.stored) != at.hash:
        raise LogRolledBack("log", f"its event at {at.position} is not the one in the rows: {_FIX}")


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
