"""A whole session for the audit: its events and every text that they name.

Blobs are read from the store and not from this process's cache, because an audit checks what is
stored now. A missing or altered blob is left out, and the caller reports it, so that the rest of
the record can still be checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from turnlog.events.content import Digest, is_keyed
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, KeysErased
from turnlog.projections.audit.record.session_replay import collect_blob_digests
from turnlog.services.caches.text_cache import TextCache
from turnlog.services.sessions.command_handler import CommandHandler

MAX_BLOB_REQUESTS: Final = 64
"""Concurrent blob requests."""

MAX_CACHED_CHARACTERS: Final = 20_000_000
"""Characters of blobs that are cached, because sessions name the same ones."""


def create_blob_cache() -> TextCache[tuple[str, Digest]]:
    """Return an empty cache for the blobs of one run."""
    return TextCache[tuple[str, Digest]](MAX_CACHED_CHARACTERS)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session's events and blobs as they are stored."""

    events: tuple[RecordedEvent, ...]
    """All events from the first one, in order."""
    blobs: Mapping[Digest, str]
    """The named blobs that could be read."""


@dataclass(frozen=True, slots=True)
class SessionRecordLoader:
    """Loads session records; one for each run, in which no blob is fetched twice."""

    command_handler: CommandHandler
    blob_cache: TextCache[tuple[str, Digest]] = field(default_factory=create_blob_cache)

    async def load_record(
        self, tenant: str, session: str, upto: int | None = None
    ) -> SessionRecord:
        """Return a session's record, up to a sequence if given; refuse an unknown session."""
        events = tuple(await self.command_handler.load_events(tenant, session, upto))
        return SessionRecord(events, await self.load_blobs(tenant, collect_blob_digests(events)))

    async def load_blobs(self, tenant: str, digests: Iterable[Digest]) -> Mapping[Digest, str]:
        """Return the texts of the blobs that exist among these."""
        free = asyncio.Semaphore(MAX_BLOB_REQUESTS)
        unique_digests = tuple(dict.fromkeys(digests))
        found = await asyncio.gather(
            *(self._load_blob(tenant, digest, free) for digest in unique_digests)
        )
        return {
            digest: text
            for digest, text in zip(unique_digests, found, strict=True)
            if text is not None
        }

    async def load_digest_keys(self, tenant: str, digests: Iterable[Digest]) -> dict[Digest, str]:
        """Return the keys of the digests of sealed blobs, in hexadecimal."""
        sealing = self.command_handler.sealing
        keys = sealing.keys if sealing else None
        if keys is None:
            return {}
        keyed = [digest for digest in digests if is_keyed(digest)]
        return {each: (await keys.find_digest_key(tenant, each)).hex() for each in keyed}

    async def list_erased(
        self, tenant: str, digests: Iterable[Digest], found: Container[Digest]
    ) -> list[Digest]:
        """Return those of the digests that were not found because their keys were removed."""
        missing = (each for each in digests if each not in found and is_keyed(each))
        return [each for each in missing if await self._is_erased(tenant, each)]

    async def _is_erased(self, tenant: str, digest: Digest) -> bool:
        try:
            await self.command_handler.texts.blobs.get_blob(tenant, digest)
        except KeysErased:
            return True
        except Corrupt:
            pass
        return False

    async def load_media(self, tenant: str, digest: Digest) -> bytes:
        """Return the bytes of a picture, a recording or a file; raises `Corrupt`."""
        return await self.command_handler.texts.media.store.get_media(tenant, digest)

    async def _load_blob(self, tenant: str, digest: Digest, free: asyncio.Semaphore) -> str | None:
        if (text := self.blob_cache.get((tenant, digest))) is not None:
            return text
        async with free:
            try:
                text = (await self.command_handler.texts.blobs.get_blob(tenant, digest)).decode()
            except Corrupt:
                return None
        self.blob_cache.put((tenant, digest), text)
        return text
