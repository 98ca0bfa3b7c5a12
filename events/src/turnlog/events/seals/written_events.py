"""Sealed events that a process has written lately, for its own readers.

A reader of the same process gets what was sealed, and has nothing to decrypt, unpack and join. Only
who seals adds an event: where a leaf was removed nothing can be sealed under it, so nothing comes
back here after it was forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from turnlog.events.seals.sealed_payload import SealedPayload

MAX_WRITTEN_EVENTS: Final = 256
"""Events that are kept; readers in the same process are milliseconds behind."""

MAX_WRITTEN_BYTES: Final = 4 * 1024 * 1024
"""Bytes of these, as they are stored and as they were before."""


@dataclass(frozen=True, slots=True)
class _WrittenEvent:
    payload: SealedPayload
    tenant: str
    leaves: str

    @property
    def size(self) -> int:
        return len(self.payload) + len(self.payload.opened or b"")


@dataclass(slots=True, eq=False)
class WrittenEvents:
    """The last events that a process has sealed, by the bytes to store."""

    _kept: OrderedDict[bytes, _WrittenEvent] = field(
        default_factory=OrderedDict[bytes, _WrittenEvent], repr=False
    )
    _size: int = 0

    def add_event(self, tenant: str, leaves: str, payload: SealedPayload) -> None:
        """Keep an event that was sealed under the leaves of a name."""
        self._drop_event(payload)
        written = _WrittenEvent(payload, tenant, leaves)
        self._kept[payload] = written
        self._size += written.size
        while len(self._kept) > MAX_WRITTEN_EVENTS or self._size > MAX_WRITTEN_BYTES:
            self._drop_event(next(iter(self._kept)))

    def find_event(self, stored: bytes) -> SealedPayload | None:
        """Return the event of stored bytes with its key and what it opens to, if it is kept."""
        found = self._kept.get(stored)
        return found.payload if found else None

    def forget_session(self, tenant: str, session: str) -> None:
        """Drop all events under leaves of a session, in whichever session they are."""
        place = f";{session}:"
        for stored, written in tuple(self._kept.items()):
            if written.tenant == tenant and place in f";{written.leaves}":
                self._drop_event(stored)

    def forget_all(self) -> None:
        """Drop all events."""
        self._kept.clear()
        self._size = 0

    def _drop_event(self, stored: bytes) -> None:
        if written := self._kept.pop(stored, None):
            self._size -= written.size
