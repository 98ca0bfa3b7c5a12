"""A whole session for the audit: its events and every text that they name.

Blobs are read from the store and not from this process's cache, because an audit checks what is
stored now. A missing or altered blob is left out, and the caller reports it, so that the rest of
the record can still be checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from turnlog.events.content import Digest
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt
from turnlog.projections.audit.retelling import blobs_named
from turnlog.services.runtime.sessions import Sessions
from turnlog.services.runtime.texts import TextCache

AT_ONCE: Final = 64
"""Concurrent blob requests."""
KEPT: Final = 20_000_000
"""Characters of blobs that are cached, because sessions name the same ones."""


def nothing_kept() -> TextCache[tuple[str, Digest]]:
    """Return an empty cache for the blobs of one run."""
    return TextCache[tuple[str, Digest]](KEPT)


@dataclass(frozen=True, slots=True)
class Record:
    """A session's events and blobs as they are stored."""

    events: tuple[Recorded, ...]
    """All events from the first one, in order."""
    blobs: Mapping[Digest, str]
    """The named blobs that could be read."""


@dataclass(frozen=True, slots=True)
class Records:
    """Loads session records; one for each run, in which no blob is fetched twice."""

    sessions: Sessions
    kept: TextCache[tuple[str, Digest]] = field(default_factory=nothing_kept)

    async def whole(self, tenant: str, session: str, upto: int | None = None) -> Record:
        """Return a session's record, up to a sequence if given; refuse an unknown session."""
        events = tuple(await self.sessions.events(tenant, session, upto))
        return Record(events, await self.blobs(tenant, blobs_named(events)))

    async def blobs(self, tenant: str, digests: Iterable[Digest]) -> Mapping[Digest, str]:
        """Return the texts of the blobs that exist among these."""
        free = asyncio.Semaphore(AT_ONCE)
        wanted = tuple(dict.fromkeys(digests))
        found = await asyncio.gather(*(self._blob(tenant, digest, free) for digest in wanted))
        return {
            digest: text for digest, text in zip(wanted, found, strict=True) if text is not None
        }

    async def _blob(self, tenant: str, digest: Digest, free: asyncio.Semaphore) -> str | None:
        if (text := self.kept.get((tenant, digest))) is not None:
            return text
        async with free:
            try:
                text = (await self.sessions.texts.blobs.get(tenant, digest)).decode()
            except Corrupt:
                return None
        self.kept.put((tenant, digest), text)
        return text
