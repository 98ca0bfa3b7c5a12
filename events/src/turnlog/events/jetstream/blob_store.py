"""Blobs on JetStream, and media in chunks that are blobs.

A blob is one message under its digest. The server itself rejects a second message, so storing can
be repeated, and bytes read back are checked against their digest. Whoever has a login of NATS can
have an answer of the server stored under a digest: what is no such blob is passed over, and the
blob is stored behind it. A media item is stored as blobs
and, after all of them, the list of their digests under the digest of the whole. So what a crash
leaves is no item yet, and the next upload of the same bytes finds those chunks stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from nats.js.api import Header

from turnlog.events.content import KEYED_DIGEST, Digest, compute_digest
from turnlog.events.errors import AlteredBlob, AlteredMedia, Corrupt, Unavailable
from turnlog.events.jetstream import stream_reader
from turnlog.events.jetstream.direct_get import get_last_message, get_next_message
from turnlog.events.jetstream.js_api import (
    JsApiError,
    PublishAck,
    list_subjects,
    request_json,
)
from turnlog.events.jetstream.nats_connection import NatsConnection, require_keys, wait_backoff
from turnlog.events.jetstream.stream_setup import check_message_size
from turnlog.events.seals.leaf_sets import LeafSets
from turnlog.events.store.media_chunks import (
    ChunkList,
    ReceivedMedia,
    StoredMedia,
    is_chunk_list,
    parse_chunk_list,
    receive_media,
)
from turnlog.events.store.ports import RawEvent
from turnlog.events.subjects import (
    ALL_BLOB_SUBJECTS,
    BLOBS_STREAM,
    MEDIA_PREFIX,
    build_blob_filter,
    build_blob_subject,
    build_media_subject,
    parse_blob_subject,
)

BLOB_EXISTS_CODE: Final = 10071
"""The server's error code for a subject that already holds a message."""

BLOB_IN_FLIGHT_CODE: Final = 10164
"""The code of a replicated stream for a subject whose first message is being stored right now."""


@dataclass(frozen=True, slots=True)
class JetStreamBlobStore:
    """Blobs of all tenants."""

    connection: NatsConnection
    patience: float = 10.0
    """Seconds for which a blob may be stored again; a leader is elected in five."""

    async def put_blob(self, tenant: str, data: bytes) -> Digest:
        """See `BlobStore.put_blob`."""
        digest = compute_digest(data)
        await self._store_blob(tenant, digest, data, lambda held: compute_digest(held) == digest)
        return digest

    async def put_turn_blob(self, tenant: str, data: bytes, leaves: LeafSets | None) -> Digest:
        """See `TurnBlobStore.put_turn_blob`."""
        if leaves is None:
            return await self.put_blob(tenant, data)
        keys = require_keys(self.connection, "a text of this session")
        digest = await keys.compute_digest(tenant, leaves, data)
        stored = await keys.seal_text(tenant, leaves, digest, data)
        await self._store_blob(tenant, digest, stored, lambda held: held == stored)
        return digest

    async def _store_blob(
        self, tenant: str, digest: Digest, stored: bytes, is_same: Callable[[bytes], bool]
    ) -> None:
        check_message_size(self.connection, "blob", len(stored))
        await self.store_once(build_blob_subject(tenant, digest), stored, is_same)

    async def store_once(self, subject: str, data: bytes, is_same: Callable[[bytes], bool]) -> None:
        """Store a message under a subject, unless one that it holds `is_same`.

        Repeats what may have failed.
        """
        ends = asyncio.get_running_loop().time() + self.patience
        failures = last = 0
        while True:
            try:
                if await self._try_to_store(subject, data, last):
                    return
                found, last = await self.find_message(subject, is_same)
                if found is not None:
                    return
            except Unavailable as error:
                is_refused = isinstance(error, JsApiError) and error.code != BLOB_IN_FLIGHT_CODE
                if is_refused or asyncio.get_running_loop().time() > ends:
                    raise
                await wait_backoff(failures)
                failures += 1

    async def _try_to_store(self, subject: str, data: bytes, last: int) -> bool:
        """Store a message behind the last one of its subject; False if that is another one."""
        try:
            await request_json(
                connection=self.connection,
                subject=subject,
                reply_type=PublishAck,
                payload=data,
                headers={Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(last)},
            )
        except JsApiError as denied:
            if denied.code != BLOB_EXISTS_CODE:
                raise
            return False
        return True

    async def find_message(
        self, subject: str, is_same: Callable[[bytes], bool]
    ) -> tuple[bytes | None, int]:
        """Return the first message that `is_same`, and the stream sequence of the last one."""
        start = 1
        while found := await get_next_message(
            self.connection, BLOBS_STREAM, subject, start, leader=True
        ):
            if is_same(found.payload):
                return found.payload, found.stream_sequence
            start = found.stream_sequence + 1
        return None, start - 1

    async def get_blob(self, tenant: str, digest: Digest) -> bytes:
        """See `BlobStore.get_blob`."""
        subject = build_blob_subject(tenant, digest)
        if digest.startswith(KEYED_DIGEST):
            return await self._open_blob(tenant, digest, subject)
        last = await get_last_message(self.connection, BLOBS_STREAM, subject)
        if last is not None and compute_digest(last.payload) == digest:
            return last.payload
        first = await self.get_first_message(subject)
        if first is None:
            raise Corrupt(f"blob {digest}", "it is gone")
        found, _ = await self.find_message(subject, lambda held: compute_digest(held) == digest)
        if found is None:
            raise AlteredBlob(digest, first)
        return found

    async def get_first_message(self, subject: str) -> bytes | None:
        """Return the message that a subject has held from the beginning, or None."""
        found = await get_next_message(self.connection, BLOBS_STREAM, subject, 1)
        if found is None:
            found = await get_next_message(self.connection, BLOBS_STREAM, subject, 1, leader=True)
        return found.payload if found else None

    async def _open_blob(self, tenant: str, digest: Digest, subject: str) -> bytes:
        """Return the text of a sealed blob: of the first message that its key opens."""
        keys, start, last = require_keys(self.connection, f"blob {digest}"), 1, b""
        while found := await get_next_message(
            self.connection, BLOBS_STREAM, subject, start, leader=True
        ):
            opened = await keys.open_text(tenant, digest, found.payload)
            if opened is not None:
                return opened
            start, last = found.stream_sequence + 1, found.payload
        if start == 1:
            raise Corrupt(f"blob {digest}", "it is gone")
        raise AlteredBlob(digest, last)

    def stream_raw_blobs(self, after: int) -> AsyncGenerator[Sequence[RawEvent]]:
        """See `BlobStore.stream_raw_blobs`."""
        return stream_reader.stream_raw_events(
            self.connection, BLOBS_STREAM, ALL_BLOB_SUBJECTS, after, live=False
        )


@dataclass(frozen=True, slots=True)
class JetStreamMediaStore:
    """Media of all tenants."""

    blobs: JetStreamBlobStore

    async def put_media(
        self,
        tenant: str,
        data: AsyncIterable[bytes],
        *,
        most_bytes: int,
        expected: Digest | None = None,
    ) -> StoredMedia:
        """See `MediaStore.put_media`."""
        received = await receive_media(data, most_bytes=most_bytes, expected=expected)
        return await self.put_received(tenant, received)

    async def put_received(self, tenant: str, received: ReceivedMedia) -> StoredMedia:
        """See `MediaStore.put_received`."""
        subject = build_media_subject(tenant, received.item.digest)
        digests = [await self.blobs.put_blob(tenant, chunk) for chunk in received.chunks]
        chunk_list = ChunkList(size=received.item.size, chunks=tuple(digests))
        written = chunk_list.model_dump_json().encode()
        await self.blobs.store_once(subject, written, is_chunk_list)
        return received.item

    async def get_media(self, tenant: str, digest: Digest) -> bytes:
        """See `MediaStore.get_media`."""
        async with aclosing(self.stream_media(tenant, digest)) as chunks:
            return b"".join([chunk async for chunk in chunks])

    async def stream_media(self, tenant: str, digest: Digest) -> AsyncGenerator[bytes]:
        """See `MediaStore.stream_media`."""
        chunk_list = await self._find_chunk_list(tenant, digest)
        if chunk_list is None:
            raise Corrupt(f"media {digest}", "it is gone")
        hasher = sha256()
        for number, name in enumerate(chunk_list.chunks, 1):
            place = f"chunk {number} of {len(chunk_list.chunks)}"
            try:
                chunk = await self.blobs.get_blob(tenant, name)
            except AlteredBlob as altered:
                raise AlteredMedia(digest, f"the bytes of {place} have changed") from altered
            except Corrupt as missing:
                raise Corrupt(f"media {digest}", f"{place} is gone") from missing
            hasher.update(chunk)
            yield chunk
        if f"sha256:{hasher.hexdigest()}" != digest:
            raise AlteredMedia(digest, "its chunks are those of other bytes")

    async def find_media(self, tenant: str, digest: Digest) -> StoredMedia | None:
        """See `MediaStore.find_media`."""
        chunk_list = await self._find_chunk_list(tenant, digest)
        return None if chunk_list is None else StoredMedia(digest, chunk_list.size)

    async def iterate_media(self, tenant: str) -> AsyncGenerator[StoredMedia]:
        """See `MediaStore.iterate_media`."""
        everything = build_blob_filter(tenant)
        async for subject in list_subjects(self.blobs.connection, BLOBS_STREAM, everything):
            _, name = parse_blob_subject(subject)
            if name.startswith(MEDIA_PREFIX):
                found = await self.find_media(tenant, name.removeprefix(MEDIA_PREFIX))
                if found is not None:
                    yield found

    async def _find_chunk_list(self, tenant: str, digest: Digest) -> ChunkList | None:
        """Return the list that `put_media` stored, or None if nothing is stored."""
        subject = build_media_subject(tenant, digest)
        first = await self.blobs.get_first_message(subject)
        if first is None:
            return None
        if is_chunk_list(first):
            return parse_chunk_list(digest, first)
        found, _ = await self.blobs.find_message(subject, is_chunk_list)
        return parse_chunk_list(digest, found or first)
