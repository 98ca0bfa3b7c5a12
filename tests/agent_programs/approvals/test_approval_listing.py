"""The list of approvals loads the turns that it names at the same time, but not all at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tests.support.sessions.session_harness import TENANT, SessionHarness
from turnlog.events.envelope import RecordedEvent
from turnlog.events.store.memory_log import MemoryLog
from turnlog.services.approvals.approval_listing import MAX_TURN_LOADS, load_undecided


@dataclass(kw_only=True)
class BarrierLog(MemoryLog):
    """A log that answers only once so many ask at the same time as may."""

    barrier: asyncio.Barrier = field(default_factory=lambda: asyncio.Barrier(MAX_TURN_LOADS))
    waiting: int = 0
    most: int = 0

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await self.barrier.wait()
        self.waiting -= 1
        return await super().read_last_event(tenant, session, leader=leader)


async def test_turns_of_a_page_are_loaded_at_the_same_time_up_to_a_limit() -> None:
    log = BarrierLog()
    turns = [(f"session-{number}", 1) for number in range(4 * MAX_TURN_LOADS)]
    async with asyncio.timeout(30):
        found = await load_undecided(SessionHarness(log=log).sessions, TENANT, turns)
    assert found == dict.fromkeys(turns, ())
    assert log.most == MAX_TURN_LOADS
