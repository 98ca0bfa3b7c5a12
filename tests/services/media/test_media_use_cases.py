"""Uploads at the same time, slow uploads, and media that lacks a chunk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress

import pytest

from tests.services.media.media_samples import PNG
from turnlog.events.content import compute_digest
from turnlog.events.errors import AlteredMedia, Corrupt, Refused
from turnlog.events.store.media_chunks import iterate_bytes
from turnlog.events.store.memory_log import MemoryMediaStore
from turnlog.services.caches.media_cache import MediaReader
from turnlog.services.media.media_use_cases import (
    MAX_TENANT_UPLOADS,
    MAX_UPLOADS,
    MediaUseCases,
    UploadAnnouncement,
)

DIGEST = compute_digest(PNG)


class LackingStore(MemoryMediaStore):
    """A store whose items have all but their last chunk."""

    fault: Corrupt = Corrupt(f"media {DIGEST}", "chunk 2 of 2 is gone")

    async def stream_media(self, tenant: str, digest: str) -> AsyncGenerator[bytes]:
        yield self.media.get((tenant, digest), PNG)[:-1]
        raise self.fault

    async def get_media(self, tenant: str, digest: str) -> bytes:
        async for _ in self.stream_media(tenant, digest):
            pass
        return b""


async def upload(media: MediaUseCases, tenant: str = "t") -> None:
    await media.upload_media(tenant, iterate_bytes(PNG), UploadAnnouncement())


async def test_media_that_lacks_a_chunk_counts_as_unknown_so_that_it_is_uploaded_again() -> None:
    media = MediaUseCases(store=LackingStore(), most_bytes=1_000)
    await upload(media)
    with pytest.raises(Refused) as refused:
        await media.find_media("t", DIGEST)
    assert (refused.value.code, refused.value.field) == ("unknown-blob", "digest")
    assert refused.value.detail == "chunk 2 of 2 is gone"
    assert refused.value.fix == "upload it with POST /v1/blobs"


async def test_altered_media_is_not_taken_for_unknown() -> None:
    store = LackingStore()
    store.fault = AlteredMedia(DIGEST, "the bytes of chunk 2 of 2 have changed")
    media = MediaUseCases(store=store, most_bytes=1_000)
    await upload(media)
    with pytest.raises(AlteredMedia):
        await media.find_media("t", DIGEST)


@pytest.mark.parametrize(
    ("fault", "remedy"),
    [
        (LackingStore.fault, "upload it again with POST /v1/blobs, or exclude the turn"),
        (AlteredMedia(DIGEST, "its bytes have changed"), "exclude the turn that has it"),
    ],
)
async def test_prompt_with_a_lost_picture_fails_with_what_to_do(
    fault: Corrupt, remedy: str
) -> None:
    store = LackingStore()
    store.fault = fault
    with pytest.raises(Corrupt, match=remedy) as failed:
        await MediaReader(store).read_media("t", [DIGEST])
    assert str(failed.value).startswith(f"media {DIGEST}: {fault.detail}")


async def wait_in_the_middle() -> AsyncIterator[bytes]:
    yield PNG
    await asyncio.Event().wait()


async def start_uploads(media: MediaUseCases, *tenants: str) -> list[asyncio.Task[object]]:
    """Start uploads that do not end, and return them once they run."""
    started: list[asyncio.Task[object]] = [
        asyncio.create_task(media.upload_media(each, wait_in_the_middle(), UploadAnnouncement()))
        for each in tenants
    ]
    await asyncio.sleep(0)
    return started


async def cancel_uploads(uploads: list[asyncio.Task[object]]) -> None:
    for each in uploads:
        each.cancel()
        with suppress(asyncio.CancelledError):
            await each


async def test_uploads_of_one_tenant_leave_room_for_others() -> None:
    media = MediaUseCases(store=MemoryMediaStore(), most_bytes=1_000)
    uploads = await start_uploads(media, *["slow"] * MAX_TENANT_UPLOADS)
    with pytest.raises(Refused, match=f"{MAX_TENANT_UPLOADS} uploads are running"):
        await upload(media, "slow")
    await upload(media, "other")
    await cancel_uploads(uploads[:1])
    await upload(media, "slow")
    await cancel_uploads(uploads)


async def test_uploads_of_all_tenants_are_limited_together() -> None:
    media = MediaUseCases(store=MemoryMediaStore(), most_bytes=1_000)
    tenants = [f"t{number // MAX_TENANT_UPLOADS}" for number in range(MAX_UPLOADS)]
    uploads = await start_uploads(media, *tenants)
    with pytest.raises(Refused, match=f"{MAX_UPLOADS} uploads are running"):
        await upload(media, "another")
    await cancel_uploads(uploads)


async def test_upload_that_takes_too_long_loses_its_slot() -> None:
    media = MediaUseCases(store=MemoryMediaStore(), most_bytes=1_000, max_seconds=0.01)
    for _ in range(MAX_TENANT_UPLOADS + 1):
        with pytest.raises(Refused) as refused:
            await media.upload_media("t", wait_in_the_middle(), UploadAnnouncement())
        assert (refused.value.code, refused.value.field) == ("too-slow", "body")
