"""A log checkpoint covers the events read, while sessions continue."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.parts.house import TENANT, House
from tests.parts.reproduction import means
from turnlog.events.store.memory_log import MemoryLog
from turnlog.events.store.ports import RawEvent
from turnlog.projections.store.engine import open_store
from turnlog.services.auditing.verify_service import VerifyService


@dataclass
class Growing(MemoryLog):
    """A log that grows as soon as its end was read."""

    later: tuple[RawEvent, ...] = ()

    async def get_last_stream_sequence(self, tenant: str) -> int:
        """See `Log.end`."""
        end = await super().get_last_stream_sequence(tenant)
        self.stored += self.later
        self.later = ()
        return end


async def test_a_checkpoint_ends_where_the_last_event_lies_that_it_holds(tmp_path: Path) -> None:
    other = House()
    await other.open("early")
    log = Growing(stored=list(other.log.stored))
    await other.open("late")
    log.later = tuple(raw for raw in other.log.stored[len(log.stored) :] if raw)
    house, store = (
        House(log=log, blobs=other.blobs),
        open_store(f"sqlite:///{tmp_path / 'rows.db'}"),
    )
    auditing = VerifyService(TENANT, house.sessions, house.segments, store, means())
    taken = await auditing.create_checkpoint()
    await store.close()
    assert set(taken.sessions) == {"early", "late"}
    assert taken.end == len(other.log.stored)
