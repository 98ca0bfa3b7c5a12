"""The ports of sealing: what attaches keys to what is read, and seals what is written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from pydantic import BaseModel

from turnlog.events.content import Digest
from turnlog.events.seals.leaf_sets import LeafSets


class EventSealer(Protocol):
    """Seals one event; see `EventSeal`."""

    def seal_event(self, kind: type[BaseModel], opened: bytes) -> bytes:
        """Return the bytes to store of an event; the same ones if it has no words."""
        ...


class SealingKeys(Protocol):
    """Attaches the keys of sealed events to their bytes; see `SessionKeys`."""

    async def attach_key(self, stored: bytes) -> bytes:
        """Return stored bytes with the key of their box, if they are a sealed event."""
        ...

    async def attach_keys(self, stored: Iterable[bytes]) -> list[bytes]:
        """Return all of these with their keys."""
        ...

    async def create_record(self, tenant: str, session: str) -> int:
        """Store new keys for a session, unless it has some; return their generation."""
        ...

    async def has_record(self, tenant: str, session: str) -> bool:
        """Return whether a session has keys."""
        ...

    async def find_event_seal(self, tenant: str, leaves: LeafSets) -> EventSealer:
        """Return what seals an event under these leaves; raises `Corrupt` without their keys."""
        ...

    async def compute_digest(self, tenant: str, leaves: LeafSets, data: bytes) -> Digest:
        """Return the keyed digest of a text."""
        ...

    async def find_digest_key(self, tenant: str, digest: Digest) -> bytes:
        """Return the key of the digest of a sealed blob; raises `Corrupt` without it."""
        ...

    async def seal_text(self, tenant: str, leaves: LeafSets, name: str, data: bytes) -> bytes:
        """Return a text as it is stored under a name."""
        ...

    async def open_text(self, tenant: str, name: str, stored: bytes) -> bytes | None:
        """Return a text that was sealed under a name, or None if it was altered."""
        ...
