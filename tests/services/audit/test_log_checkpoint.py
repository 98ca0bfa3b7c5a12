"""A log checkpoint covers the events read, while sessions continue."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.support.sessions.reproduction_checks import get_verification_means
from tests.support.sessions.session_harness import TENANT, SessionHarness
from turnlog.events.store.memory_log import MemoryLog
from turnlog.events.store.ports import RawEvent
from turnlog.events.subjects import ALERT_HISTORY, READ_HISTORY
from turnlog.projections.store.engine import open_store
from turnlog.services.audit.verify_service import VerifyService


@dataclass(kw_only=True)
class GrowingLog(MemoryLog):
    """A log that grows as soon as its end was read."""

    later: tuple[RawEvent, ...] = ()

    async def get_last_stream_sequence(self, tenant: str) -> int:
        """See `Log.end`."""
        end = await super().get_last_stream_sequence(tenant)
        self.stored += self.later
        self.later = ()
        return end


async def test_checkpoint_ends_at_the_position_of_its_last_event(tmp_path: Path) -> None:
    other = SessionHarness()
    await other.open_session("early")
    log = GrowingLog(stored=list(other.log.stored))
    await other.open_session("late")
    log.later = tuple(raw for raw in other.log.stored[len(log.stored) :] if raw)
    house, store = (
        SessionHarness(log=log, blobs=other.blobs),
        open_store(f"sqlite:///{tmp_path / 'rows.db'}"),
    )
    auditing = VerifyService(
        tenant=TENANT,
        command_handler=house.sessions,
        library_log=house.segments,
        alerts_log=MemoryLog(kind=ALERT_HISTORY),
        reads_log=MemoryLog(kind=READ_HISTORY),
        store=store,
        means=get_verification_means(),
    )
    taken = await auditing.create_checkpoint()
    await store.close()
    assert set(taken.sessions) == {"early", "late"}
    assert taken.end == len(other.log.stored)
