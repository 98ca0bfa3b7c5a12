"""Users' own prompts: the history of a tenant, its texts, and what a turn takes of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count

import pytest

from tests.support.sessions.unreachable_log import UnreachableLog
from turnlog.events.content import Digest, compute_digest
from turnlog.events.errors import Refused, Unavailable
from turnlog.events.model.override_events import OVERRIDE_FAMILY
from turnlog.events.store.memory_log import MemoryBlobStore
from turnlog.events.subjects import LIBRARY_HISTORY
from turnlog.projections.blueprint.schema.prompt_overrides import OverridePlace
from turnlog.projections.library.user_overrides import MAX_OVERRIDES
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS, read_folder
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.command_handling.tenant_histories import RECENT_AGE, LibraryParts
from turnlog.services.overrides.override_service import OverrideService

UDERIA = read_folder(SHIPPED_BLUEPRINTS / "uderia")

BASE = OverridePlace("master_system")

BY = Caller(tenant="a", metadata=CommandMetadata("client"))


@dataclass
class FullBlobStore(MemoryBlobStore):
    """A store that takes nothing while it is full."""

    is_full: bool = False

    async def put_blob(self, tenant: str, data: bytes) -> Digest:
        if self.is_full:
            raise Unavailable("blobs", "the store is full")
        return await super().put_blob(tenant, data)


@dataclass
class OverrideHarness:
    """Processes that share a log and a blob store, on a clock that stands still."""

    log: UnreachableLog = field(default_factory=lambda: UnreachableLog(kind=LIBRARY_HISTORY))
    blobs: FullBlobStore = field(default_factory=FullBlobStore)
    seconds: float = 100.0
    ids: count[int] = field(default_factory=count)

    def build_service(self) -> OverrideService:
        """Build the service of one process."""
        parts = LibraryParts(
            log=self.log,
            blobs=self.blobs,
            clock=lambda: datetime(2026, 11, 23, tzinfo=UTC),
            create_id=lambda: f"id-{next(self.ids)}",
            source="/test",
        )
        return OverrideService(parts, lambda: self.seconds)


async def set_base(service: OverrideService, text: str, user: str = "ann") -> None:
    await service.set_override(BY, user, "uderia", BASE, text=text)


async def list_versions(service: OverrideService, user: str = "ann") -> list[tuple[int, Digest]]:
    found = (await service.load_overrides("a")).list_overrides(user, "uderia")
    return [(each.override.version, each.override.digest) for each in found]


async def test_override_event_is_not_written_before_its_text_is_stored() -> None:
    harness = OverrideHarness()
    service = harness.build_service()
    harness.blobs.is_full = True
    with pytest.raises(Unavailable):
        await set_base(service, "One.")
    assert await harness.log.read_last_event("a", OVERRIDE_FAMILY) is None
    harness.blobs.is_full = False
    await set_base(service, "One.")
    assert await list_versions(service) == [(1, compute_digest("One."))]


async def test_override_without_its_event_is_not_set() -> None:
    harness = OverrideHarness()
    harness.log.is_cut_off = True
    with pytest.raises(Unavailable):
        await set_base(harness.build_service(), "One.")
    assert ("a", compute_digest("One.")) in harness.blobs.blobs
    harness.log.is_cut_off = False
    later = harness.build_service()
    assert await list_versions(later) == []
    assert await later.list_turn_overrides("a", "ann", UDERIA) == ()
    await set_base(later, "One.")
    assert await list_versions(later) == [(1, compute_digest("One."))]


async def test_concurrent_override_edits_create_one_version_each() -> None:
    harness = OverrideHarness()
    services = [harness.build_service() for _ in range(4)]
    texts = [f"Text {number}." for number in range(4)]
    await asyncio.gather(*(map(set_base, services, texts)))
    found = [await list_versions(each) for each in services]
    assert found == [found[0]] * 4
    assert found[0][0][0] == 4


async def test_absence_of_overrides_is_read_at_most_once_a_second() -> None:
    harness = OverrideHarness()
    here, elsewhere = harness.build_service(), harness.build_service()
    assert await here.list_turn_overrides("a", "ann", UDERIA) == ()
    await set_base(elsewhere, "One.")
    reads = harness.log.reads
    for user in ("ann", "ben", None):
        assert await here.list_turn_overrides("a", user, UDERIA) == ()
    assert harness.log.reads == reads
    harness.seconds += RECENT_AGE
    (own,) = await here.list_turn_overrides("a", "ann", UDERIA)
    assert own.digest == compute_digest("One.")
    await set_base(elsewhere, "Two.")
    (own,) = await here.list_turn_overrides("a", "ann", UDERIA)
    assert (own.version, own.digest) == (2, compute_digest("Two.")), "who has one is read each time"


async def test_blueprint_without_override_categories_causes_no_read() -> None:
    harness = OverrideHarness()
    assistant = read_folder(SHIPPED_BLUEPRINTS / "assistant")
    service = harness.build_service()
    assert await service.list_turn_overrides("a", "ann", assistant) == ()
    assert await service.list_turn_overrides("a", None, UDERIA) == ()
    assert harness.log.reads == 0


async def test_number_of_overrides_per_user_and_blueprint_is_limited() -> None:
    service = OverrideHarness().build_service()
    places = [OverridePlace("master_system", provider=f"p{n}") for n in range(MAX_OVERRIDES + 1)]
    for place in places[:-1]:
        await service.set_override(BY, "ann", "uderia", place, text="One.")
    with pytest.raises(Refused) as refused:
        await service.set_override(BY, "ann", "uderia", places[-1], text="One.")
    assert refused.value.code == "too-many-overrides"
    await service.set_override(BY, "ann", "uderia", places[0], text="Two.")
    await service.remove_override(BY, "ann", "uderia", places[0])
    await service.set_override(BY, "ann", "uderia", places[-1], text="One.")
    await service.set_override(BY, "ben", "uderia", places[0], text="One.")
