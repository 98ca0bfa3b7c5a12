"""A tenant stores no more media than its limit allows, however many processes store at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from turnlog.events.codec import decode_library_event
from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.events.model.quota_events import MediaCounted
from turnlog.events.store.media_chunks import ReceivedMedia, StoredMedia, iterate_bytes
from turnlog.events.store.memory_log import MemoryBlobStore, MemoryLog, MemoryMediaStore
from turnlog.events.subjects import LIBRARY_HISTORY
from turnlog.projections.quotas.media_limits import (
    MAX_MEDIA_RESERVATIONS,
    MEDIA_RESERVATION_AGE,
    MediaLimitReached,
)
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.command_handling.tenant_histories import LibraryParts
from turnlog.services.platform.clock import create_id
from turnlog.services.quotas.limited_media_store import LimitedMediaStore
from turnlog.services.quotas.media_limit_service import MediaLimitService

BY = CommandMetadata("operator")


@dataclass
class DyingMediaStore(MemoryMediaStore):
    """A store whose process dies as it stores, if it is told to."""

    dies: bool = False
    is_stored_first: bool = False

    async def put_received(self, tenant: str, received: ReceivedMedia) -> StoredMedia:
        """See `MediaStore.put_received`."""
        await asyncio.sleep(0)
        if self.dies and not self.is_stored_first:
            raise RuntimeError("killed")
        stored = await super().put_received(tenant, received)
        if self.dies:
            raise RuntimeError("killed")
        return stored


@dataclass
class WaitingMediaStore(MemoryMediaStore):
    """A store whose uploads wait until they may be stored."""

    waits: asyncio.Event = field(default_factory=asyncio.Event)
    may_store: asyncio.Event = field(default_factory=asyncio.Event)

    async def put_received(self, tenant: str, received: ReceivedMedia) -> StoredMedia:
        """See `MediaStore.put_received`."""
        self.waits.set()
        await self.may_store.wait()
        return await super().put_received(tenant, received)


@dataclass
class Installation:
    """Processes on one library and one store."""

    at: datetime = datetime(2026, 11, 29, 12, tzinfo=UTC)
    library: MemoryLog = field(default_factory=lambda: MemoryLog(kind=LIBRARY_HISTORY))
    store: MemoryMediaStore = field(default_factory=MemoryMediaStore)

    def start_process(self) -> LimitedMediaStore:
        parts = LibraryParts(
            log=self.library,
            blobs=MemoryBlobStore(),
            clock=lambda: self.at,
            create_id=create_id,
            source="/test",
        )
        return LimitedMediaStore(self.store, MediaLimitService(parts, self.store))


async def put(process: LimitedMediaStore, data: bytes, tenant: str = "t") -> StoredMedia:
    return await process.put_media(tenant, iterate_bytes(data), most_bytes=1_000)


async def read_figures(process: LimitedMediaStore) -> tuple[int, int, int]:
    balance = (await process.limits.reconcile_balance("t")).balance
    return balance.stored, balance.items, len(balance.reservations)


async def test_media_that_pass_the_limit_are_refused_with_the_limit_and_what_to_do() -> None:
    process = Installation().start_process()
    await process.limits.edit_limit("t", 100, BY)
    await put(process, b"a" * 60)
    with pytest.raises(MediaLimitReached) as refused:
        await put(process, b"b" * 41)
    assert refused.value.code == "media-limit"
    assert "of 100 bytes" in refused.value.detail
    assert "60 are used" in refused.value.detail
    assert "turnlog quota media" in (refused.value.fix or "")
    assert await process.find_media("t", compute_digest(b"b" * 41)) is None
    await put(process, b"b" * 40)
    assert await read_figures(process) == (100, 2, 0)


async def test_processes_that_store_at_once_do_not_pass_the_limit_together() -> None:
    installation = Installation()
    processes = [installation.start_process() for _ in range(4)]
    await processes[0].limits.edit_limit("t", 100, BY)
    stores = [put(processes[number % 4], bytes([number]) * 30) for number in range(12)]
    results = await asyncio.gather(*stores, return_exceptions=True)
    stored = [each for each in results if isinstance(each, StoredMedia)]
    assert len(stored) == len(installation.store.media) == 3
    assert await read_figures(processes[1]) == (90, 3, 0)


async def test_the_same_bytes_count_once_and_need_no_room_again() -> None:
    installation = Installation()
    first, second = installation.start_process(), installation.start_process()
    await first.limits.edit_limit("t", 50, BY)
    await asyncio.gather(put(first, b"a" * 50), put(second, b"a" * 50))
    await put(first, b"a" * 50)
    assert await read_figures(second) == (50, 1, 0)


async def test_what_was_stored_before_there_was_a_limit_counts() -> None:
    process = Installation().start_process()
    await put(process, b"a" * 60)
    await put(process, b"b" * 90, tenant="other")
    await process.limits.edit_limit("t", 100, BY)
    assert await read_figures(process) == (60, 1, 0)
    with pytest.raises(MediaLimitReached):
        await put(process, b"c" * 41)


async def test_a_limit_that_is_removed_counts_again_once_there_is_another() -> None:
    process = Installation().start_process()
    await process.limits.edit_limit("t", 100, BY)
    await put(process, b"a" * 60)
    await process.limits.edit_limit("t", None, BY)
    await put(process, b"b" * 400)
    await process.limits.edit_limit("t", 500, BY)
    assert await read_figures(process) == (460, 2, 0)


async def test_a_limit_below_what_is_stored_removes_nothing_and_takes_nothing() -> None:
    process = Installation().start_process()
    await put(process, b"a" * 60)
    await process.limits.edit_limit("t", 10, BY)
    assert await process.get_media("t", compute_digest(b"a" * 60)) == b"a" * 60
    with pytest.raises(MediaLimitReached):
        await put(process, b"c")


@pytest.mark.parametrize("recounts", ["shown", "stored", "refused"])
async def test_upload_that_runs_while_the_first_limit_is_set_counts_once_it_has_ended(
    recounts: str,
) -> None:
    store = WaitingMediaStore()
    installation = Installation(store=store)
    first, second = installation.start_process(), installation.start_process()
    running = asyncio.create_task(put(first, b"a" * 60))
    await store.waits.wait()
    await second.limits.edit_limit("t", 100, BY)
    store.may_store.set()
    await running
    await put(second, b"b" * 30)
    assert await read_figures(second) == (30, 1, 0)
    installation.at += MEDIA_RESERVATION_AGE
    if recounts == "stored":
        await put(second, b"c" * 10)
    elif recounts == "refused":
        with pytest.raises(MediaLimitReached, match="90 are used"):
            await put(second, b"c" * 11)
    expected = (100, 3, 0) if recounts == "stored" else (90, 2, 0)
    assert await read_figures(first) == expected


async def test_media_are_counted_again_once_and_not_while_they_are_being_stored() -> None:
    """Whatever is reserved is left to its own settlement, so that nothing counts twice."""
    installation = Installation()
    process, other = installation.start_process(), installation.start_process()
    await put(process, b"a" * 20)
    await process.limits.edit_limit("t", 100, BY)
    await installation.store.put_media("t", iterate_bytes(b"b" * 30), most_bytes=100)
    installation.at += MEDIA_RESERVATION_AGE
    await process.limits.reserve_item("t", StoredMedia(compute_digest(b"c"), 1))
    installation.store.media["t", compute_digest(b"c")] = b"c"
    await asyncio.gather(read_figures(process), read_figures(other))
    assert await read_figures(process) == (50, 2, 1)
    last = await installation.library.read_last_event("t", "media-limit")
    assert last is not None
    assert isinstance(decode_library_event(last), MediaCounted)
    assert last.sequence == 3
    await put(other, b"c")
    assert await read_figures(process) == (51, 3, 0)


async def test_an_item_that_is_being_stored_while_the_limit_is_set_again_counts_once() -> None:
    store = WaitingMediaStore()
    installation = Installation(store=store)
    process = installation.start_process()
    await process.limits.edit_limit("t", 100, BY)
    running = asyncio.create_task(put(process, b"a" * 60))
    await store.waits.wait()
    await process.limits.edit_limit("t", None, BY)
    # Its bytes are stored, and its process has not settled it yet.
    store.media["t", compute_digest(b"a" * 60)] = b"a" * 60
    await process.limits.edit_limit("t", 100, BY)
    store.may_store.set()
    await running
    assert await read_figures(process) == (60, 1, 0)


@pytest.mark.parametrize("is_stored_first", [False, True])
async def test_bytes_of_a_process_that_died_count_only_if_they_are_stored(
    *, is_stored_first: bool
) -> None:
    store = DyingMediaStore()
    installation = Installation(store=store)
    process = installation.start_process()
    await process.limits.edit_limit("t", 100, BY)
    store.dies, store.is_stored_first = True, is_stored_first
    with pytest.raises(RuntimeError):
        await put(process, b"a" * 80)
    store.dies = False
    assert await read_figures(process) == (0, 0, 1)
    with pytest.raises(MediaLimitReached):
        await put(process, b"b" * 30)
    installation.at += MEDIA_RESERVATION_AGE + timedelta(seconds=1)
    if is_stored_first:
        with pytest.raises(MediaLimitReached):
            await put(process, b"b" * 30)
    else:
        await put(process, b"b" * 30)
    assert await read_figures(process) == ((80, 1, 0) if is_stored_first else (30, 1, 0))


async def test_an_upload_that_is_sent_again_after_its_process_died_counts_once() -> None:
    store = DyingMediaStore()
    installation = Installation(store=store)
    process = installation.start_process()
    await process.limits.edit_limit("t", 100, BY)
    store.dies, store.is_stored_first = True, True
    with pytest.raises(RuntimeError):
        await put(process, b"a" * 80)
    store.dies = False
    await put(installation.start_process(), b"a" * 80)
    assert await read_figures(process) == (80, 1, 0)


async def test_no_more_items_are_stored_at_once_than_an_event_can_list() -> None:
    installation = Installation()
    process = installation.start_process()
    await process.limits.edit_limit("t", 1_000_000, BY)
    for number in range(MAX_MEDIA_RESERVATIONS):
        await process.limits.reserve_item("t", StoredMedia(compute_digest(bytes([number])), 1))
    with pytest.raises(Refused, match="are being stored"):
        await put(process, b"one more")


async def test_nothing_is_recorded_for_a_tenant_without_a_limit() -> None:
    installation = Installation()
    await put(installation.start_process(), b"a" * 60)
    assert await installation.library.read_last_event("t", "media-limit") is None
