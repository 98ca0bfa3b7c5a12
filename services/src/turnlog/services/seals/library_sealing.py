"""Seals the events and the texts of a tenant's library: knowledge, segments and overrides.

A family has one record of keys for a tenant. An event is under the key of its own sequence, and so
is the text that it names: a text can be erased by one key, and what is added later has another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from turnlog.events.codec import MAX_BATCH_EVENTS, SealEvent
from turnlog.events.content import Digest, compute_digest
from turnlog.events.envelope import ChainHead
from turnlog.events.errors import KeyringMissing, TooLarge
from turnlog.events.model.redaction_events import SourceErased, SourceErasureBegun
from turnlog.events.registry import AppendableEvent, LibraryEvent
from turnlog.events.seals.key_ports import SealingKeys
from turnlog.events.seals.leaf_sets import LeafSets, get_library_leaves, name_library_keys
from turnlog.events.store.ports import BlobStore
from turnlog.projections.library.sealed_texts import (
    find_text_digest,
    replace_text_digest,
    split_texts,
)

TEXT_BATCH: Final = 64
"""Texts stored concurrently."""


class LibraryState(Protocol):
    """The state of a family of events of a tenant."""

    @property
    def head(self) -> ChainHead | None:
        """The last event folded; None before the first."""
        ...


class LibraryBlobStore(BlobStore, Protocol):
    """Stores texts of the library under the keys of their events."""

    async def put_library_blob(self, tenant: str, data: bytes, leaves: LeafSets) -> Digest:
        """Store a text and return its keyed digest."""
        ...


@dataclass(frozen=True, slots=True)
class LibrarySealing:
    """Seals what is appended to the library, where sealing is on or was when it was appended to.

    What was appended before stays plain.
    """

    keys: SealingKeys | None
    """The keys of the families; None without a keyring."""
    blobs: LibraryBlobStore
    is_on: bool
    """Whether families are sealed that are not sealed yet."""

    async def is_sealed(self, tenant: str, family: str) -> bool:
        """Return whether what is appended to a family is sealed."""
        if self.keys is None and self.is_on:
            raise KeyringMissing(f"the library of tenant {tenant}")
        if self.keys is None:
            return False
        return self.is_on or await self.keys.has_record(tenant, name_library_keys(family))

    async def seal_texts(
        self,
        tenant: str,
        family: str,
        state: LibraryState,
        events: Sequence[LibraryEvent],
        texts: Sequence[str],
    ) -> Sequence[LibraryEvent]:
        """Store the texts of events sealed; return the events with the digests to find them by.

        `texts` are those that are new. Raises `TooLarge` for more than an append takes.
        """
        await self._require_record(tenant, family)  # No text is stored before its keys are.
        known = {compute_digest(text): text.encode() for text in texts}
        first = (state.head.sequence if state.head else 0) + 1
        numbered = list(enumerate(split_texts(events), first))
        if len(numbered) > MAX_BATCH_EVENTS:
            what = "texts of one change of a sealed library"
            raise TooLarge(what, len(numbered), MAX_BATCH_EVENTS)
        sealed = list[LibraryEvent]()
        for start in range(0, len(numbered), TEXT_BATCH):
            batch = (
                self._seal_text(tenant, get_library_leaves(family, at), event, known)
                for at, event in numbered[start : start + TEXT_BATCH]
            )
            sealed += await asyncio.gather(*batch)
        return sealed

    async def _seal_text(
        self, tenant: str, leaves: LeafSets, event: LibraryEvent, known: Mapping[Digest, bytes]
    ) -> LibraryEvent:
        found = find_text_digest(event)
        if found is None:
            return event
        stored, plain = found
        data = known.get(plain)
        if data is None:  # An edit of what the library says of a text that stays.
            data = await self.blobs.get_blob(tenant, stored)
        keyed = await self.blobs.put_library_blob(tenant, data, leaves)
        (sequences,) = leaves.values()
        return replace_text_digest(event, keyed, plain, max(sequences))

    async def prepare_seal(
        self,
        tenant: str,
        family: str,
        state: LibraryState | None,
        events: Sequence[AppendableEvent],
    ) -> tuple[Sequence[AppendableEvent], SealEvent | None]:
        """See `HistorySealing.prepare_seal`."""
        if not await self.is_sealed(tenant, family):
            return events, None
        keys = await self._require_record(tenant, family)
        first = (state.head.sequence if state and state.head else 0) + 1
        seals = [
            None  # It has to be read when the keys are gone.
            if isinstance(event, SourceErasureBegun | SourceErased)
            else await keys.find_event_seal(tenant, get_library_leaves(family, at))
            for at, event in enumerate(events, first)
        ]
        left = iter(seals)

        def seal(event: AppendableEvent, payload: bytes) -> bytes:
            found = next(left)
            return found.seal_event(type(event), payload) if found else payload

        return events, seal

    async def _require_record(self, tenant: str, family: str) -> SealingKeys:
        """Return the keys, with a record of those of a family."""
        name = name_library_keys(family)
        if self.keys is None:
            raise KeyringMissing(f"the library of tenant {tenant}")
        if not await self.keys.has_record(tenant, name):
            await self.keys.create_record(tenant, name)
        return self.keys
