"""The ports of sealing: what attaches keys to what is read, and seals what is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel

from turnlog.events.content import Digest
from turnlog.events.seals.kept_keys import KeptKey
from turnlog.events.seals.leaf_sets import LeafSets
from turnlog.events.seals.person_names import PseudonymKey


@dataclass(frozen=True, slots=True)
class RemovedKeys:
    """How the record of a session was replaced by one that has fewer keys."""

    generation: int
    """The generation of the keyring that unwraps copies of the record before."""
    before: Digest
    """Digest of the stored record before; the one after, if the keys were gone already."""
    after: Digest
    """Digest of the record after."""
    left: Digest
    """Digest of the list of keys that are left; see `kept_keys`."""


class EventSealer(Protocol):
    """Seals one event; see `EventSeal`."""

    def seal_event(self, kind: type[BaseModel], opened: bytes) -> bytes:
        """Return the bytes to store of an event; the same ones if it has no words."""
        ...


class MediaSealer(Protocol):
    """Seals the chunks of one media item; see `MediaSeal`."""

    @property
    def leaves(self) -> str:
        """The name of the leaves that its keys follow from."""
        ...

    def compute_digest(self, chunk: bytes) -> Digest:
        """Return the digest that a chunk is stored under."""
        ...

    def seal_chunk(self, tenant: str, name: Digest, chunk: bytes) -> bytes:
        """Return a chunk as it is stored under a name."""
        ...

    def open_chunk(self, tenant: str, name: Digest, stored: bytes) -> bytes | None:
        """Return a chunk that was sealed under a name, or None if it was altered."""
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

    async def remove_leaves(
        self, tenant: str, session: str, leaves: frozenset[int] | None, last_turn: int
    ) -> RemovedKeys:
        """Remove keys of a session for good, or all of them with None; twice is as good as once.

        `last_turn` is the last one that the session had by then. Raises `Corrupt` if the session
        has no record.
        """
        ...

    async def list_kept_keys(self, tenant: str, session: str, last_turn: int) -> Sequence[KeptKey]:
        """Return the nodes that are left of a session's keys, by the record that is stored now.

        Raises `Corrupt` if the session has no record.
        """
        ...

    async def compare_record(self, tenant: str, session: str) -> None:
        """Read the record of a session anew, and drop what is in memory of another one."""
        ...

    def watch_records(self) -> AbstractAsyncContextManager[None]:
        """Forget the keys of each session whose record is replaced while the body runs."""
        ...

    def add_listener(self, listener: Callable[[str, str], None]) -> None:
        """Call this with tenant and session whenever keys of a session were removed anywhere."""
        ...

    async def find_event_seal(self, tenant: str, leaves: LeafSets) -> EventSealer:
        """Return what seals an event under these leaves; raises `Corrupt` without their keys."""
        ...

    async def find_pseudonym_key(self, tenant: str) -> PseudonymKey:
        """Return what the pseudonyms of the people of a tenant follow from, the same each time."""
        ...

    async def compute_digest(self, tenant: str, leaves: LeafSets, data: bytes) -> Digest:
        """Return the keyed digest of a text."""
        ...

    async def find_digest_key(self, tenant: str, digest: Digest) -> bytes:
        """Return the key of the digest of a sealed blob; raises `Corrupt` without it."""
        ...

    async def seal_session_text(self, tenant: str, session: str, name: str, data: bytes) -> bytes:
        """Return a text as it is stored, under all keys of a session that are left.

        Removing any of them makes it unreadable.
        """
        ...

    async def derive_digest_key(self, tenant: str, leaves: str) -> bytes:
        """Return the key of digests under the leaves of a name; raises `Corrupt` without it."""
        ...

    async def find_media_seal(self, tenant: str, leaves: str, digest: Digest) -> MediaSealer:
        """Return what seals the item of a keyed digest under the leaves of a name.

        Raises `Corrupt` if their keys are lost, and `KeysErased` if they were removed.
        """
        ...

    async def seal_upload(self, tenant: str, digest: Digest) -> tuple[str, MediaSealer]:
        """Return the name that an upload is stored under, and what seals it."""
        ...

    async def find_upload(self, tenant: str, digest: Digest) -> tuple[str, MediaSealer] | None:
        """Return the same for an upload that may be stored; None where none was ever sealed."""
        ...

    async def seal_text(self, tenant: str, leaves: LeafSets, name: str, data: bytes) -> bytes:
        """Return a text as it is stored under a name."""
        ...

    async def open_text(self, tenant: str, name: str, stored: bytes) -> bytes | None:
        """Return a text that was sealed under a name, or None if it was altered."""
        ...
