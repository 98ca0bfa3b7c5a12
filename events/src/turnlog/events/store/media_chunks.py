"""Media in chunks: how bytes become chunks, and how the list of the chunks is written and read.

A media item is a picture, a recording or a file of up to some megabytes. One stream message takes
one megabyte, so its bytes are stored in chunks, each under its own digest, and the list of the
chunks under the digest of the whole. Nothing is stored before all bytes have arrived and are
accepted.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turnlog.events.content import DIGEST_PATTERN, KEYED_DIGEST, Digest
from turnlog.events.errors import AlteredMedia, Refused, TooLarge
from turnlog.events.seals.key_ports import MediaSealer

CHUNK_BYTES: Final = 512 * 1024
"""Bytes of every chunk but the last; a server takes one megabyte in a message."""


@dataclass(frozen=True, slots=True)
class StoredMedia:
    """A media item that a store has, whole."""

    digest: Digest
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class ReceivedMedia:
    """Accepted bytes in their chunks, which are to be stored."""

    item: StoredMedia
    """What it is stored as; a sealed one has a name in place of its digest."""
    chunks: Sequence[bytes]
    seal: MediaSealer | None = None
    """What seals the chunks; None if they are stored as they are."""


class PieceDigest:
    """The digest of pieces of bytes that are joined; one with a key is keyed."""

    def __init__(self, key: bytes | None = None) -> None:
        self._prefix = "sha256:" if key is None else KEYED_DIGEST
        hasher = sha256() if key is None else hmac.new(key, digestmod="sha256")
        self._add, self._finish = hasher.update, hasher.hexdigest

    def add_piece(self, piece: bytes) -> None:
        """Add a piece."""
        self._add(piece)

    def format_digest(self) -> Digest:
        """Return the digest of all pieces so far."""
        return self._prefix + self._finish()


async def receive_media(
    data: AsyncIterable[bytes], *, most_bytes: int, expected: Digest | None
) -> ReceivedMedia:
    """Return what a stream of bytes contains.

    Raises `TooLarge` as soon as more than `most_bytes` have arrived, and `Refused` if the digest is
    not the expected one. It lets others run between two chunks, whatever the pieces are.
    """
    whole, size, chunks, rest = PieceDigest(), 0, list[bytes](), bytearray()
    async for piece in data:
        size += len(piece)
        if size > most_bytes:
            raise TooLarge("media", size, most_bytes)
        for begin in range(0, len(piece), CHUNK_BYTES):
            rest += piece[begin : begin + CHUNK_BYTES]
            if len(rest) >= CHUNK_BYTES:
                chunks.append(bytes(rest[:CHUNK_BYTES]))
                del rest[:CHUNK_BYTES]
                whole.add_piece(chunks[-1])
                await asyncio.sleep(0)
    if rest:
        chunks.append(bytes(rest))
        whole.add_piece(chunks[-1])
    digest = whole.format_digest()
    if expected not in {None, digest}:
        detail = f"the bytes have the digest {digest}"
        raise Refused("digest-differs", detail, field="digest", fix="send the bytes again")
    return ReceivedMedia(StoredMedia(digest, size), chunks)


async def iterate_bytes(data: bytes) -> AsyncGenerator[bytes]:
    """Yield bytes that are in memory as the stream that `put_media` takes."""
    for begin in range(0, len(data), CHUNK_BYTES):
        yield data[begin : begin + CHUNK_BYTES]


class ChunkList(BaseModel):
    """The list of the chunks of a media item, as it is stored under the digest of the whole."""

    model_config = ConfigDict(frozen=True)

    size: Annotated[int, Field(ge=0)]
    """Bytes of the whole."""
    chunks: tuple[Annotated[Digest, Field(pattern=DIGEST_PATTERN)], ...]
    """Digests of the chunks, in order."""
    sealed_of: str | None = None
    """The name of the leaves that the chunks are sealed under; None if they are not."""

    def encode(self) -> bytes:
        """Return the list as it is stored."""
        return self.model_dump_json(exclude_none=True).encode()


def parse_chunk_list(digest: Digest, stored: bytes) -> ChunkList:
    """Return the stored list of the chunks of a media item; raises `AlteredMedia`."""
    try:
        return ChunkList.model_validate_json(stored)
    except ValidationError as error:
        raise AlteredMedia(digest, "the list of its chunks cannot be read") from error


def is_chunk_list(stored: bytes) -> bool:
    """Return whether stored bytes are a list of chunks, whatever they are the chunks of."""
    try:
        ChunkList.model_validate_json(stored)
    except ValidationError:
        return False
    return True
