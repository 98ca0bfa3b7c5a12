"""Use cases of media: uploading, finding and downloading."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from turnlog.contract.turn_payloads import StoredBlobView
from turnlog.events.content import Digest
from turnlog.events.errors import AlteredMedia, Corrupt, KeysErased, Refused, TooLarge
from turnlog.events.store.media_chunks import iterate_bytes, receive_media
from turnlog.events.store.ports import MediaStore
from turnlog.services.media.media_types import (
    UNSPECIFIED_TYPE,
    TypedBytes,
    detect_media_type,
    parse_media_type,
)
from turnlog.services.media.partial_uploads import PartialUploads

MAX_UPLOADS: Final = 24
"""Uploads at the same time; each of them is in memory until all of its bytes have arrived."""

MAX_TENANT_UPLOADS: Final = 8
"""Uploads of one tenant at the same time."""

MAX_UPLOAD_SECONDS: Final = 600.0
"""Seconds that one upload may take: a slow client holds its slot no longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadAnnouncement:
    """What the sender of an upload says about its bytes; None where it says nothing."""

    media_type: str | None = None
    size: int | None = None
    """Bytes of the request, without those before `offset`."""
    digest: Digest | None = None
    offset: int = 0
    """How many bytes an earlier request has brought; such an upload has its digest announced."""


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
    max_seconds: float = MAX_UPLOAD_SECONDS
    partial_uploads: PartialUploads = field(default_factory=PartialUploads)
    _running: Counter[str] = field(default_factory=Counter[str])
    """Uploads that are running, by tenant."""

    async def upload_media(
        self, tenant: str, pieces: AsyncIterable[bytes], announced: UploadAnnouncement
    ) -> StoredBlobView:
        """Store what arrives, unless it is not what was announced; repeating it has no effect.

        If its digest was announced, what arrives before the connection breaks is kept for a
        request with the rest.
        """
        typed = TypedBytes(parse_media_type(announced.media_type))
        size = announced.offset + (announced.size or 0)
        if size > self.most_bytes:
            raise TooLarge("body", size, self.most_bytes)
        async with (
            self._take_slot(tenant),
            aclosing(self._limit_time(self._collect(tenant, pieces, announced))) as collected,
            aclosing(typed.check_pieces(collected)) as checked,
        ):
            # Read before anything else is awaited: what a connection brought is lost with it.
            received = await receive_media(
                checked, most_bytes=self.most_bytes, expected=announced.digest
            )
            sealed = await self.store.seal_upload(tenant, received)
            await self.store.put_received(tenant, sealed)
        return StoredBlobView(
            digest=received.item.digest,
            size=received.item.size,
            media_type=typed.media_type or UNSPECIFIED_TYPE,
        )

    @asynccontextmanager
    async def _take_slot(self, tenant: str) -> AsyncGenerator[None]:
        running, most = self._running[tenant], MAX_TENANT_UPLOADS
        if running < most:
            running, most = self._running.total(), MAX_UPLOADS
        if running >= most:
            fix = "send it again when one of them has finished"
            raise Refused("busy", f"{most} uploads are running", fix=fix)
        self._running[tenant] += 1
        try:
            yield
        finally:
            self._running[tenant] -= 1
            if not self._running[tenant]:
                del self._running[tenant]

    async def _limit_time(self, pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        """Yield pieces; raises `Refused` `too-slow` for a body that is not there in time."""
        ends = asyncio.get_running_loop().time() + self.max_seconds
        async with aclosing(pieces):
            while True:
                try:
                    async with asyncio.timeout_at(ends):
                        piece = await anext(pieces, None)
                except TimeoutError:
                    detail = f"it has not arrived within {self.max_seconds:g} s"
                    fix = "announce its digest, and send the rest with `Upload-Offset`"
                    raise Refused("too-slow", detail, field="body", fix=fix) from None
                if piece is None:
                    return
                yield piece

    async def _collect(
        self, tenant: str, pieces: AsyncIterable[bytes], announced: UploadAnnouncement
    ) -> AsyncGenerator[bytes]:
        """Yield what earlier requests brought and what arrives; keep it if that breaks off."""
        if announced.digest is None:
            if announced.offset:
                fix = "name the digest of the whole by `?digest=`"
                detail = "an upload goes on by its digest"
                raise Refused("invalid", detail, field="Upload-Offset", fix=fix)
            async for piece in pieces:
                yield piece
            return
        key = tenant, announced.digest
        arrived = bytearray(self.partial_uploads.take_bytes(key, announced.offset))
        async for piece in iterate_bytes(bytes(arrived)):
            yield piece
        try:
            async for piece in pieces:
                arrived += piece
                yield piece
        except (Exception, asyncio.CancelledError):  # Of the connection: none of the reader
            self.partial_uploads.keep_bytes(key, bytes(arrived))
            raise

    async def find_media(self, tenant: str, digest: Digest) -> StoredBlobView:
        """Return a media item, all of whose bytes were read; raises `Refused` `unknown-blob`.

        One that lacks a chunk counts as unknown: an upload stores what is missing.
        """
        try:
            download = await self.open_media(tenant, digest)
            async with aclosing(download.chunks) as chunks:
                async for _ in chunks:
                    pass
        except AlteredMedia:
            raise
        except Corrupt as missing:
            fix = "upload it with POST /v1/blobs"
            raise Refused("unknown-blob", missing.detail, field="digest", fix=fix) from missing
        return download.item

    async def open_media(self, tenant: str, digest: Digest) -> BlobDownload:
        """Return a media item whose first chunk was read; raises `Refused` `unknown-blob`."""
        found = await self.store.find_media(tenant, digest)
        if found is None:
            detail = "there is no picture, recording or file of this digest"
            raise Refused("unknown-blob", detail, field="digest")
        chunks = self.store.stream_media(tenant, digest)
        try:
            first = await anext(chunks, b"")
        except KeysErased as erased:
            detail = "what was said in its turn was erased"
            raise Refused("unknown-blob", detail, field="digest") from erased
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
