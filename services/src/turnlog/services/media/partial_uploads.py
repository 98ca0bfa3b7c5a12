"""Uploads that broke off: what had arrived is kept for some minutes, so that the rest suffices.

It is kept in memory, by one gateway, for uploads whose digest was announced. A gateway that has
nothing of an upload says so by its offset, which is 0 then: the client sends it from the beginning.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from turnlog.events.content import Digest
from turnlog.events.errors import Refused

MAX_PARTIAL_BYTES: Final = 64 * 1024 * 1024
"""Bytes of all of them together; the oldest go first."""

PARTIAL_SECONDS: Final = 600.0
"""Seconds for which one is kept."""

UploadKey = tuple[str, Digest]
"""The tenant, and the digest that was announced."""


def _read_clock() -> float:
    return asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True)
class _PartialUpload:
    data: bytes
    ends: float


@dataclass
class PartialUploads:
    """What is kept of the uploads of all tenants."""

    max_bytes: int = MAX_PARTIAL_BYTES
    clock: Callable[[], float] = _read_clock
    _kept: OrderedDict[UploadKey, _PartialUpload] = field(
        default_factory=OrderedDict[UploadKey, _PartialUpload]
    )

    def get_offset(self, key: UploadKey) -> int:
        """Return how many bytes of an upload are here; 0 if none are."""
        self._drop_old()
        found = self._kept.get(key)
        return len(found.data) if found else 0

    def take_bytes(self, key: UploadKey, offset: int) -> bytes:
        """Return the bytes before an offset, and keep them no longer.

        Raises `Refused` `offset-differs` if other than so many are here.
        """
        if not offset:
            self._kept.pop(key, None)
            return b""
        found = self.get_offset(key)
        if found != offset:
            detail = f"{found} bytes of this upload are here"
            fix = f"send the bytes from {found} on"
            raise Refused("offset-differs", detail, field="Upload-Offset", fix=fix)
        return self._kept.pop(key).data

    def keep_bytes(self, key: UploadKey, data: bytes) -> None:
        """Keep what has arrived of an upload."""
        if not data:
            return
        self._kept[key] = _PartialUpload(data, self.clock() + PARTIAL_SECONDS)
        self._drop_old()
        while sum(len(each.data) for each in self._kept.values()) > self.max_bytes:
            self._kept.popitem(last=False)

    def _drop_old(self) -> None:
        now = self.clock()
        for key in [key for key, each in self._kept.items() if each.ends <= now]:
            del self._kept[key]
