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
from turnlog.events.store.ports import MediaStore
from turnlog.projections.prompt.message_media import MediaBytes

MAX_CACHED_BYTES: Final = 64 * 1024 * 1024
"""Bytes that a process caches."""


@dataclass
class MediaReader:
    """Reads media, and caches the least recently used up to a number of bytes."""

    store: MediaStore
    max_bytes: int = MAX_CACHED_BYTES
    _cached: OrderedDict[tuple[str, Digest], bytes] = field(
        default_factory=OrderedDict[tuple[str, Digest], bytes]
    )
    _byte_count: int = 0

    async def read_media(self, tenant: str, digests: Iterable[Digest]) -> MediaBytes:
        """Return the bytes of media by digest; raises `Corrupt` if some are gone or altered."""
        return {digest: await self._read(tenant, digest) for digest in dict.fromkeys(digests)}

    async def _read(self, tenant: str, digest: Digest) -> bytes:
        key = tenant, digest
        if (cached := self._cached.get(key)) is not None:
            self._cached.move_to_end(key)
            return cached
        data = await self.store.get_media(tenant, digest)
        if key not in self._cached:
            self._cached[key] = data
            self._byte_count += len(data)
        while self._byte_count > self.max_bytes:
            self._byte_count -= len(self._cached.popitem(last=False)[1])
        return data
