"""Whether the log still holds the event that the rows were folded up to.

A log that was rolled back or exchanged must stop the projector before it folds anything, and the
gateway before it appends anything.
"""

from __future__ import annotations

from functools import partial
from typing import Final, Protocol

from turnlog.events.content import Digest, compute_digest
from turnlog.events.errors import LogRolledBack, StreamHole
from turnlog.events.store.ports import EventLog, LogIdentity, RawEvent
from turnlog.services.integrity.rollback_confirmation import CONFIRM_SECONDS, confirm_rollback

_FIX: Final = "restore that log, or run `turnlog rebuild` to build rows from this one"


class FoldedPosition(Protocol):
    """The log that rows are folded from, and the last event folded."""

    @property
    def log(self) -> LogIdentity: ...
    @property
    def position(self) -> int: ...
    @property
    def hash(self) -> Digest | None: ...


async def verify_log(
    log: EventLog, tenant: str, at: FoldedPosition, *, seconds: float = CONFIRM_SECONDS
) -> None:
    """Raise `LogRolledBack` unless the log still holds the event that the position names.

    A log that is too short must be so for `seconds`.
    """
    now = await log.get_identity(tenant)
    if now != at.log:
        detail = f"the rows come from {at.log.stream} made at {at.log.created}"
        this = f"this is {now.stream} made at {now.created}"
        raise LogRolledBack(f"stream {now.stream}", f"{detail}, {this}: {_FIX}")
    if at.position == 0:
        return
    if short := await confirm_rollback(partial(_find_short_end, log, tenant, at), seconds):
        raise short
    found = await log.read_raw_event(at.position)
    if found is None:
        hole = StreamHole(now.stream, at.position, at.position)
        raise LogRolledBack(hole.where, hole.detail) from hole
    verify_same_event(found, at)


async def _find_short_end(log: EventLog, tenant: str, at: FoldedPosition) -> LogRolledBack | None:
    end = await log.get_last_stream_sequence(tenant)
    if end >= at.position:
        return None
    detail = f"it ends before {at.position}, up to which the rows were built, at {end}"
    return LogRolledBack(f"stream {at.log.stream}", f"{detail}: {_FIX}")


def verify_same_event(found: RawEvent, at: FoldedPosition) -> None:
    """Raise `LogRolledBack` unless this is the event that the position names."""
    if found.stream_sequence != at.position or compute_digest(found.stored) != at.hash:
        detail = f"its event at {at.position} is not the one in the rows: {_FIX}"
        raise LogRolledBack(f"stream {at.log.stream}", detail)
