"""A log in memory that can be cut off, and that counts its reads."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.codec import EventBatch
from turnlog.events.envelope import RecordedEvent
from turnlog.events.store.memory_log import MemoryLog
from turnlog.events.store.ports import AppendOutcome, LogUnreachable


@dataclass(kw_only=True)
class UnreachableLog(MemoryLog):
    """A log whose appends fail without a definite answer while it is cut off."""

    is_cut_off: bool = False
    reads: int = 0
    """How often the last event of a history was read."""

    async def append_batch(self, batch: EventBatch) -> AppendOutcome:
        if self.is_cut_off:
            return LogUnreachable("cut off", ambiguous=True)
        return await super().append_batch(batch)

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        self.reads += 1
        return await super().read_last_event(tenant, session, leader=leader)
