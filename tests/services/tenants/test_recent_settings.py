"""Settings of tenants are read at most once a second, and outlive an outage of the library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Unavailable
from turnlog.events.store.memory_log import MemoryBlobStore, MemoryLog
from turnlog.events.subjects import LIBRARY_HISTORY
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.command_handling.tenant_histories import LibraryParts
from turnlog.services.identity.tenant_service import TenantService
from turnlog.services.platform.clock import create_id, read_clock

ROOT = Caller(tenant="default", metadata=CommandMetadata("key:root"))


class BreakableLog(MemoryLog):
    """A log that counts its reads, and can be out of reach."""

    is_lost = False
    reads = 0

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        self.reads += 1
        if self.is_lost:
            raise Unavailable("library", "it is lost")
        return await super().read_last_event(tenant, session, leader=leader)


@dataclass
class StandingClock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def create_service(log: MemoryLog, monotonic: Callable[[], float]) -> TenantService:
    parts = LibraryParts(
        log=log, blobs=MemoryBlobStore(), clock=read_clock, create_id=create_id, source="/test"
    )
    return TenantService(parts, monotonic)


async def test_settings_are_read_once_a_second_and_count_from_then() -> None:
    log, clock = BreakableLog(kind=LIBRARY_HISTORY), StandingClock()
    ours, others = create_service(log, clock), create_service(log, clock)
    assert (await ours.load_settings("travel")).models is None
    await others.configure_tenant(ROOT, "travel", lambda before: replace(before, models=("a",)))
    before = log.reads
    for _ in range(5):
        assert (await ours.load_settings("travel")).models is None
    assert log.reads == before
    clock.now = 1.0
    assert (await ours.load_settings("travel")).models == ("a",)
    assert (await ours.load_settings("review")).models is None


async def test_what_was_read_last_counts_while_the_library_is_out_of_reach() -> None:
    log, clock = BreakableLog(kind=LIBRARY_HISTORY), StandingClock()
    service = create_service(log, clock)
    await service.configure_tenant(ROOT, "travel", lambda before: replace(before, models=("a",)))
    await service.load_settings("travel")
    log.is_lost, clock.now, before = True, 2.0, log.reads
    for _ in range(5):
        assert (await service.load_settings("travel")).models == ("a",)
    assert log.reads == before + 1
    log.is_lost, clock.now = False, 4.0
    assert (await service.load_settings("travel")).models == ("a",)


async def test_a_process_that_never_read_them_lets_nobody_pass() -> None:
    log = BreakableLog(kind=LIBRARY_HISTORY)
    log.is_lost = True
    with pytest.raises(Unavailable):
        await create_service(log, StandingClock()).load_settings("travel")
