"""Records: a whole session, its events and every text they name, fetched for the audit.

Blobs are asked of the store itself, never of what a process holds of them: an audit is to see
what is there now. One that is gone or altered is left out, for whoever misses it to say so: it is
then worth most to see what else is there.
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
"""Blobs that are asked for at a time."""
KEPT: Final = 20_000_000
"""Characters of blobs that are kept, since sessions name the same ones."""


def nothing_kept() -> TextCache[tuple[str, Digest]]:
    """Give room for the blobs of one run."""
    return TextCache[tuple[str, Digest]](KEPT)


@dataclass(frozen=True, slots=True)
class Record:
    """A session as the log and the blobs have it."""

    events: tuple[Recorded, ...]
    """From the first, in order, without a gap."""
    blobs: Mapping[Digest, str]
    """Those the events name, as far as they can be had."""


@dataclass(frozen=True, slots=True)
class Records:
    """Fetches records; one a run, in which no blob is fetched twice."""

    sessions: Sessions
    kept: TextCache[tuple[str, Digest]] = field(default_factory=nothing_kept)

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
        if (text := self.kept.get((tenant, digest))) is not None:
            return text
        async with free:
            try:
                text = (await self.sessions.texts.blobs.get(tenant, digest)).decode()
            except Corrupt:
                return None
        self.kept.put((tenant, digest), text)
        return text
