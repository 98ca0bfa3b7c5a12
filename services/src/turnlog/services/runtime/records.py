"""Records: a whole session, its events and every text they name, fetched for the audit.

A blob that is gone or altered is left out, for whoever misses it to say so: it is then worth
most to see what else is there. Nothing is kept from one session to the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from turnlog.events.content import Digest
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt
from turnlog.projections.audit.retelling import blobs_named
from turnlog.services.runtime.sessions import Sessions

AT_ONCE: Final = 64
"""Blobs that are asked for at a time."""


@dataclass(frozen=True, slots=True)
class Record:
    """A session as the log and the blobs have it."""

    events: tuple[Recorded, ...]
    """From the first, in order, without a gap."""
    blobs: Mapping[Digest, str]
    """Those the events name, as far as they can be had."""


@dataclass(frozen=True, slots=True)
class Records:
    """Fetches records; one a process."""

    sessions: Sessions

    async def whole(self, tenant: str, session: str, upto: int | None = None) -> Record:
        """Give a session, or what it was up to a sequence; refuses an unknown one."""
        events = tuple(await self.sessions.events(tenant, session, upto))
        return Record(events, await self.blobs(tenant, blobs_named(events)))

    async def blobs(self, tenant: str, digests: Iterable[Digest]) -> Mapping[Digest, str]:
        """Give the blobs there are of these."""
        free = asyncio.Semaphore(AT_ONCE)
        wanted = tuple(dict.fromkeys(digests))
        found = await asyncio.gather(*(self._blob(tenant, digest, free) for digest in wanted))
        return {
            digest: text for digest, text in zip(wanted, found, strict=True) if text is not None
        }

    async def _blob(self, tenant: str, digest: Digest, free: asyncio.Semaphore) -> str | None:
        async with free:
            try:
                return (await self.sessions.texts.read_blobs(tenant, (digest,)))[digest]
            except Corrupt:
                return None
