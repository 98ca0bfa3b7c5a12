"""The states of a tenant's histories, as each process caches them."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count

from turnlog.events.model.quota_events import (
    QUOTA_LIMITS_FAMILY,
    QuotaEdited,
    QuotaLimits,
)
from turnlog.events.store.memory_log import MemoryBlobStore, MemoryLog
from turnlog.events.subjects import LIBRARY_HISTORY
from turnlog.projections.quotas.quota_limits import QuotaCommandRecord, TenantLimits, fold_limits
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.command_handling.tenant_histories import LibraryParts, TenantStates
from turnlog.services.quotas.quota_service import QuotaService


async def test_earlier_state_does_not_replace_a_later_one_in_the_cache() -> None:
    log, ids = MemoryLog(kind=LIBRARY_HISTORY), count()
    parts = LibraryParts(
        log=log,
        blobs=MemoryBlobStore(),
        clock=lambda: datetime(2026, 11, 23, tzinfo=UTC),
        create_id=lambda: f"id-{next(ids)}",
        source="/test",
    )
    service = QuotaService(parts)
    for limit in (1, 2):
        edited = QuotaEdited(user="ann", limits=QuotaLimits(requests_per_day=limit))
        await service.edit_limits("a", edited, CommandMetadata("client"))
    last = await log.read_last_event("a", QUOTA_LIMITS_FAMILY)
    assert last is not None
    events = await log.read_range("a", QUOTA_LIMITS_FAMILY, None, last)
    states = TenantStates[TenantLimits, QuotaCommandRecord](TenantLimits, fold_limits)
    later = states.fold_events(events, None)
    earlier = states.fold_events(events[:1], None)
    assert (earlier.sequence, later.sequence) == (1, 2)
    assert states.get_state("a", QUOTA_LIMITS_FAMILY) is later
    assert states.get_state("b", QUOTA_LIMITS_FAMILY) is None
