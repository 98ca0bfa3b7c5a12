"""The bytes of pictures, recordings and files, of which the latest are cached.

A question with a picture is part of every prompt while its turn is in the window, and the bytes
never change.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from turnlog.events.content import Digest
from turnlog.events.errors import AlteredMedia, Corrupt, TooLarge
from turnlog.events.store.ports import MediaStore
from turnlog.projections.prompt.message_media import MediaBytes

MAX_CACHED_BYTES: Final = 64 * 1024 * 1024
"""Bytes that a process caches."""

MAX_PROMPT_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the media of one prompt, each counted as often as it is sent.

A request has them several times in memory, and a budget of tokens does not bound them: a small
picture may have megabytes. No provider takes as many.
"""


@dataclass
class MediaReader:
    """Reads media, and caches the least recently used up to a number of bytes."""

    store: MediaStore
    max_bytes: int = MAX_CACHED_BYTES
    _cached: OrderedDict[tuple[str, Digest], bytes] = field(
        default_factory=OrderedDict[tuple[str, Digest], bytes]
    )
    _byte_count: int = 0

    async def read_media(
        self, tenant: str, digests: Iterable[Digest], *, most_bytes: int = MAX_PROMPT_BYTES
    ) -> MediaBytes:
        """Return the bytes of a prompt's media; `digests` has each as often as it is sent.

        Raises `Corrupt` if some are gone or altered, and `TooLarge` as soon as they are too many.
        """
        found, size = dict[Digest, bytes](), 0
        for digest in digests:
            if digest not in found:
                found[digest] = await self._read(tenant, digest)
            size += len(found[digest])
            if size > most_bytes:
                raise TooLarge("the media of the prompt", size, most_bytes)
        return found

    def forget_media(self) -> None:
        """Drop all media, since some of them were erased; the others are read again."""
        self._cached.clear()
        self._byte_count = 0

    async def _read(self, tenant: str, digest: Digest) -> bytes:
        key = tenant, digest
        if (cached := self._cached.get(key)) is not None:
            self._cached.move_to_end(key)
            return cached
        try:
            data = await self.store.get_media(tenant, digest)
        except AlteredMedia as altered:
            remedy = "exclude the turn that has it, or restore the stream BLOBS from a backup"
            raise Corrupt(altered.where, f"{altered.detail}: {remedy}") from altered
        except Corrupt as missing:
            remedy = "upload it again with POST /v1/blobs, or exclude the turn that has it"
            raise Corrupt(missing.where, f"{missing.detail}: {remedy}") from missing
        if key not in self._cached:
            self._cached[key] = data
            self._byte_count += len(data)
        while self._byte_count > self.max_bytes:
            self._byte_count -= len(self._cached.popitem(last=False)[1])
        return data
