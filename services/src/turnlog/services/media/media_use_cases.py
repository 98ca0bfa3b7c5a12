"""Use cases of media: uploading, finding and downloading."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from turnlog.contract.media_payloads import StoredBlobView
from turnlog.events.content import Digest
from turnlog.events.errors import Refused, TooLarge
from turnlog.events.store.ports import MediaStore
from turnlog.services.media.media_types import (
    UNSPECIFIED_TYPE,
    TypedBytes,
    detect_media_type,
    parse_media_type,
)

MAX_UPLOADS: Final = 8
"""Uploads at the same time; each of them is in memory until all of its bytes have arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadAnnouncement:
    """What the sender of an upload says about its bytes; None where it says nothing."""

    media_type: str | None = None
    size: int | None = None
    digest: Digest | None = None


@dataclass(frozen=True, slots=True)
class BlobDownload:
    """A media item and its bytes, which are read from the store while they are sent."""

    item: StoredBlobView
    chunks: AsyncGenerator[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaUseCases:
    """Stores pictures, recordings and files, and reads them back."""

    store: MediaStore
    most_bytes: int
    """Bytes of the largest item."""
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_UPLOADS))

    async def upload_media(
        self, tenant: str, pieces: AsyncIterable[bytes], announced: UploadAnnouncement
    ) -> StoredBlobView:
        """Store what arrives, unless it is not what was announced; repeating it has no effect."""
        typed = TypedBytes(parse_media_type(announced.media_type))
        if announced.size is not None and announced.size > self.most_bytes:
            raise TooLarge("body", announced.size, self.most_bytes)
        if self.slots.locked():
            detail = f"{MAX_UPLOADS} uploads are running"
            raise Refused("busy", detail, fix="send it again when one of them has finished")
        async with self.slots, aclosing(typed.check_pieces(pieces)) as checked:
            stored = await self.store.put_media(
                tenant, checked, most_bytes=self.most_bytes, expected=announced.digest
            )
        return StoredBlobView(
            digest=stored.digest,
            size=stored.size,
            media_type=typed.media_type or UNSPECIFIED_TYPE,
        )

    async def open_media(self, tenant: str, digest: Digest) -> BlobDownload:
        """Return a media item whose first chunk was read; raises `Refused` `unknown-blob`."""
        found = await self.store.find_media(tenant, digest)
        if found is None:
            detail = "there is no picture, recording or file of this digest"
            raise Refused("unknown-blob", detail, field="digest")
        chunks = self.store.stream_media(tenant, digest)
        first = await anext(chunks, b"")
        item = StoredBlobView(
            digest=digest,
            size=found.size,
            media_type=detect_media_type(first) or UNSPECIFIED_TYPE,
        )
        return BlobDownload(item, _stream_after(first, chunks))


async def _stream_after(first: bytes, chunks: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(chunks):
        yield first
        async for chunk in chunks:
            yield chunk
