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
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from turnlog.events.content import Digest, compute_digest, is_keyed
from turnlog.events.errors import AlteredBlob, AlteredMedia, Corrupt, Unavailable
from turnlog.events.jetstream import stream_reader
from turnlog.events.jetstream.direct_get import StoredMessage, get_last_message, get_next_message
from turnlog.events.jetstream.js_api import (
    IN_FLIGHT_CODE,
    JsApiError,
    list_subjects,
    store_behind,
)
from turnlog.events.jetstream.nats_connection import NatsConnection, require_keys, wait_backoff
from turnlog.events.jetstream.stream_setup import check_message_size
from turnlog.events.seals.key_ports import MediaSealer
from turnlog.events.seals.leaf_sets import SEALED_TEXT, LeafSets, format_leaves
from turnlog.events.store.media_chunks import (
    ChunkList,
    PieceDigest,
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
    SEALED_NAME,
    build_blob_filter,
    build_blob_subject,
    build_media_subject,
    build_sealed_text_subject,
    name_sealed_item,
    parse_blob_subject,
)

OpenMessage = Callable[[bytes], Awaitable[bytes | None]]
"""Return the blob in the bytes of a message; None if it is no such blob."""


@dataclass(frozen=True, slots=True)
class JetStreamBlobStore:
    """Blobs of all tenants."""

    connection: NatsConnection
    patience: float = 10.0
    """Seconds for which a blob may be stored again; a leader is elected in five."""

    async def put_blob(self, tenant: str, data: bytes) -> Digest:
        """See `BlobStore.put_blob`."""
        digest = compute_digest(data)
        await self.store_blob(tenant, digest, data, lambda held: compute_digest(held) == digest)
        return digest

    async def put_turn_blob(self, tenant: str, data: bytes, leaves: LeafSets | None) -> Digest:
        """See `TurnBlobStore.put_turn_blob`."""
        if leaves is None:
            return await self.put_blob(tenant, data)
        keys = require_keys(self.connection, "a text of this session")
        digest = await keys.compute_digest(tenant, leaves, data)
        stored = await keys.seal_text(tenant, leaves, digest, data)
        await self.store_blob(tenant, digest, stored, lambda held: held == stored)
        return digest

    async def put_library_blob(self, tenant: str, data: bytes, leaves: LeafSets) -> Digest:
        """Store a text of the library under the keys of its event; return its keyed digest.

        Those who lose the race for a sequence leave a text under the keys of another's event. Its
        own key follows from its digest too, which no event has then, so nobody can read it.
        """
        keys = require_keys(self.connection, "a text of this library")
        digest = await keys.compute_digest(tenant, leaves, data)
        seal = await keys.find_media_seal(tenant, format_leaves(leaves), digest)
        stored = seal.seal_chunk(tenant, name_sealed_item(digest), data)
        subject = build_sealed_text_subject(tenant, digest)
        await self.store_once(subject, stored, lambda held: held == stored)
        return digest

    async def store_blob(
        self, tenant: str, digest: Digest, stored: bytes, is_same: Callable[[bytes], bool]
    ) -> None:
        """Store bytes under a digest, unless a message under it `is_same`."""
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
                if await store_behind(self.connection, subject, data, last):
                    return
                async with aclosing(self.iterate_messages(subject)) as held:
                    async for each in held:
                        if is_same(each.payload):
                            return
                        last = each.stream_sequence
            except Unavailable as error:
                is_refused = isinstance(error, JsApiError) and error.code != IN_FLIGHT_CODE
                if is_refused or asyncio.get_running_loop().time() > ends:
                    raise
                await wait_backoff(failures)
                failures += 1

    async def iterate_messages(self, subject: str) -> AsyncGenerator[StoredMessage]:
        """Yield the messages under a subject, the first one first, as the leader has them."""
        start = 1
        while found := await get_next_message(
            self.connection, BLOBS_STREAM, subject, start, leader=True
        ):
            yield found
            start = found.stream_sequence + 1

    async def get_blob(self, tenant: str, digest: Digest) -> bytes:
        """See `BlobStore.get_blob`."""
        subject = build_blob_subject(tenant, digest)
        last = await get_last_message(self.connection, BLOBS_STREAM, subject)
        if last is None and is_keyed(digest):
            of_library = build_sealed_text_subject(tenant, digest)
            if found := await self._find_last_message(of_library):
                opening = partial(self._open_library_message, tenant, digest)
                return await self._open_first(digest, of_library, found, opening)
        opening = partial(self._open_message, tenant, digest)
        return await self._open_first(digest, subject, last, opening)

    async def _find_last_message(self, subject: str) -> StoredMessage | None:
        """Return the last message under a subject; a replica may lag behind the leader."""
        last = await get_last_message(self.connection, BLOBS_STREAM, subject)
        return last or await get_last_message(self.connection, BLOBS_STREAM, subject, leader=True)

    async def open_blob(self, tenant: str, digest: Digest, open_message: OpenMessage) -> bytes:
        """Return what the first message under a digest opens to that is such a blob.

        `open_message` returns None for what is none. Raises as `get_blob` does.
        """
        subject = build_blob_subject(tenant, digest)
        last = await get_last_message(self.connection, BLOBS_STREAM, subject)
        return await self._open_first(digest, subject, last, open_message)

    async def _open_first(
        self, digest: Digest, subject: str, last: StoredMessage | None, open_message: OpenMessage
    ) -> bytes:
        if last is not None:
            opened = await open_message(last.payload)
            if opened is not None:
                return opened
        held = list[bytes]()
        async with aclosing(self.iterate_messages(subject)) as messages:
            async for each in messages:
                opened = await open_message(each.payload)
                if opened is not None:
                    return opened
                held.append(each.payload)
        if not held:
            raise Corrupt(f"blob {digest}", "it is gone")
        raise AlteredBlob(digest, held[0])

    async def _open_message(self, tenant: str, digest: Digest, stored: bytes) -> bytes | None:
        """Return the blob in a message, or None if it is no such blob."""
        if is_keyed(digest):
            keys = require_keys(self.connection, f"blob {digest}")
            return await keys.open_text(tenant, digest, stored)
        return stored if compute_digest(stored) == digest else None

    async def _open_library_message(
        self, tenant: str, digest: Digest, stored: bytes
    ) -> bytes | None:
        """Return the text of the library in a message, or None if it is no such text."""
        start = SEALED_TEXT.match(stored)
        if start is None:
            return None
        keys = require_keys(self.connection, f"blob {digest}")
        seal = await keys.find_media_seal(tenant, start[1].decode(), digest)
        return seal.open_chunk(tenant, name_sealed_item(digest), stored)

    def stream_raw_blobs(self, after: int) -> AsyncGenerator[Sequence[RawEvent]]:
        """See `BlobStore.stream_raw_blobs`."""
        return stream_reader.stream_raw_events(
            self.connection, BLOBS_STREAM, ALL_BLOB_SUBJECTS, after, live=False
        )


@dataclass(frozen=True, slots=True)
class JetStreamMediaStore:
    """Media of all tenants."""

    blobs: JetStreamBlobStore
    seals_uploads: bool = False
    """Whether what is uploaded before there is a turn is sealed."""

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

    async def seal_received(
        self, tenant: str, received: ReceivedMedia, leaves: LeafSets
    ) -> tuple[Digest, ReceivedMedia]:
        """See `MediaStore.seal_received`."""
        keys = require_keys(self.blobs.connection, "a picture or a file of this session")
        name = format_leaves(leaves)
        whole = PieceDigest(await keys.derive_digest_key(tenant, name))
        for chunk in received.chunks:
            whole.add_piece(chunk)
            await asyncio.sleep(0)
        digest = whole.format_digest()
        seal = await keys.find_media_seal(tenant, name, digest)
        item = StoredMedia(name_sealed_item(digest), received.item.size)
        return digest, ReceivedMedia(item, received.chunks, seal)

    async def seal_upload(self, tenant: str, received: ReceivedMedia) -> ReceivedMedia:
        """See `MediaStore.seal_upload`."""
        if not self.seals_uploads:
            return received
        keys = require_keys(self.blobs.connection, "an upload")
        name, seal = await keys.seal_upload(tenant, received.item.digest)
        return ReceivedMedia(StoredMedia(name, received.item.size), received.chunks, seal)

    async def put_received(self, tenant: str, received: ReceivedMedia) -> StoredMedia:
        """See `MediaStore.put_received`."""
        subject, seal = build_media_subject(tenant, received.item.digest), received.seal
        digests = [await self._put_chunk(tenant, chunk, seal) for chunk in received.chunks]
        chunk_list = ChunkList(
            size=received.item.size,
            chunks=tuple(digests),
            sealed_of=seal.leaves if seal else None,
        )
        await self.blobs.store_once(subject, chunk_list.encode(), is_chunk_list)
        return received.item

    async def _put_chunk(self, tenant: str, chunk: bytes, seal: MediaSealer | None) -> Digest:
        if seal is None:
            return await self.blobs.put_blob(tenant, chunk)
        digest = seal.compute_digest(chunk)
        stored = seal.seal_chunk(tenant, digest, chunk)
        await self.blobs.store_blob(tenant, digest, stored, lambda held: held == stored)
        return digest

    async def get_media(self, tenant: str, digest: Digest) -> bytes:
        """See `MediaStore.get_media`."""
        async with aclosing(self.stream_media(tenant, digest)) as chunks:
            return b"".join([chunk async for chunk in chunks])

    async def stream_media(self, tenant: str, digest: Digest) -> AsyncGenerator[bytes]:
        """See `MediaStore.stream_media`."""
        chunk_list, seal = await self._find_item(tenant, digest)
        if chunk_list is None:
            raise Corrupt(f"media {digest}", "it is gone")
        whole = await self._start_digest(tenant, digest, seal)
        for number, name in enumerate(chunk_list.chunks, 1):
            place = f"chunk {number} of {len(chunk_list.chunks)}"
            try:
                chunk = await self._get_chunk(tenant, name, seal)
            except AlteredBlob as altered:
                raise AlteredMedia(digest, f"the bytes of {place} have changed") from altered
            except Corrupt as missing:
                raise Corrupt(f"media {digest}", f"{place} is gone") from missing
            whole.add_piece(chunk)
            yield chunk
        if whole.format_digest() != digest:
            raise AlteredMedia(digest, "its chunks are those of other bytes")

    async def _start_digest(
        self, tenant: str, digest: Digest, seal: MediaSealer | None
    ) -> PieceDigest:
        """Return what computes the digest of a whole item, keyed or not."""
        if seal is None or not is_keyed(digest):
            return PieceDigest()
        keys = require_keys(self.blobs.connection, f"media {digest}")
        return PieceDigest(await keys.derive_digest_key(tenant, seal.leaves))

    async def _get_chunk(self, tenant: str, name: Digest, seal: MediaSealer | None) -> bytes:
        if seal is None:
            return await self.blobs.get_blob(tenant, name)

        async def open_message(stored: bytes) -> bytes | None:
            return seal.open_chunk(tenant, name, stored)

        return await self.blobs.open_blob(tenant, name, open_message)

    async def _find_item(
        self, tenant: str, digest: Digest
    ) -> tuple[ChunkList | None, MediaSealer | None]:
        """Return the list of an item's chunks, if it is stored, and what opens them.

        Raises `Corrupt` if the keys of a sealed item are lost or erased.
        """
        if not is_keyed(digest):
            return await self._find_upload(tenant, digest)
        found = await self._find_chunk_list(tenant, name_sealed_item(digest))
        if found is None or found.sealed_of is None:
            return None, None
        keys = require_keys(self.blobs.connection, f"media {digest}")
        return found, await keys.find_media_seal(tenant, found.sealed_of, digest)

    async def _find_upload(
        self, tenant: str, digest: Digest
    ) -> tuple[ChunkList | None, MediaSealer | None]:
        """Return the list of an item by the digest of its bytes, and what opens a sealed upload."""
        keys, found = self.blobs.connection.keys, await self._find_chunk_list(tenant, digest)
        if found or keys is None or digest.startswith(SEALED_NAME):
            return found, None
        upload = await keys.find_upload(tenant, digest)
        if upload is None:
            return None, None
        name, seal = upload
        return await self._find_chunk_list(tenant, name), seal

    async def find_media(self, tenant: str, digest: Digest) -> StoredMedia | None:
        """See `MediaStore.find_media`."""
        if is_keyed(digest):  # Its size is known without its keys.
            chunk_list = await self._find_chunk_list(tenant, name_sealed_item(digest))
        else:
            chunk_list, _ = await self._find_upload(tenant, digest)
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
        first = await get_next_message(self.blobs.connection, BLOBS_STREAM, subject, 1)
        if first is not None and is_chunk_list(first.payload):
            return parse_chunk_list(digest, first.payload)
        held = [each.payload async for each in self.blobs.iterate_messages(subject)]
        stored = next(filter(is_chunk_list, held), held[0] if held else None)
        return None if stored is None else parse_chunk_list(digest, stored)
