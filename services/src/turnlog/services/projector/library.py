"""The segment projector: keeps the rows of library segments up to date.

A library is small, so every start folds it from its first event. This verifies that rows and stream
belong together, and rows that are behind are rewritten in one transaction. Like the session
projector, it waits for unreachable components, and ends if the stream does not match its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from turnlog.events.content import Digest, digest_of
from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.log.library import LibraryLog
from turnlog.events.log.ports import Blobs, Identity, Raw
from turnlog.events.nats.backoff import back_off
from turnlog.projections.library.stock import Changed, Stock
from turnlog.projections.store.engine import Store
from turnlog.projections.store.library import (
    VERSION,
    Shelved,
    Texts,
    begin,
    checkpoint,
    keep,
)
from turnlog.projections.store.reach import Bell
from turnlog.projections.store.schema import prepare

_FIX: Final = "bring that log back, or run `turnlog rebuild` to have rows of this one"

_log = structlog.get_logger("turnlog.projector")


@dataclass(frozen=True, slots=True)
class LibraryProjector:
    """Keeps the segment rows up to date."""

    log: LibraryLog
    blobs: Blobs
    store: Store
    tenant: str
    """Any tenant of the stream."""
    bell: Bell
    """Notified after every commit, for readers in this process."""

    async def run(self) -> None:
        """Keep the rows up to date; ends by cancellation, or with `Corrupt`."""
        failures = 0
        while True:
            try:
                await self._round()
            except Unavailable as error:
                failures += 1
                _log.warning("projector-waits", what=error.what, detail=error.detail)
            except Corrupt as error:
                _log.error("projector-stopped", where=error.where, detail=error.detail)
                raise
            await back_off(failures)

    async def rebuild(self) -> int:
        """Rewrite the rows in one transaction; return the stream sequence they are folded to."""
        await prepare(self.store)
        return (await self._written(await self._past())).position

    async def _round(self) -> None:
        """Fold until another process moves the position."""
        await prepare(self.store)
        async with self.store.reading() as connection:
            before = await checkpoint(connection)
        past = await self._past(before.position if before else 0)
        if before:
            _prove(before, past)
        there = before and (before.version, before.position) == (VERSION, past.position)
        at = before if before and there else await self._written(past)
        async with aclosing(self.log.follow(at.position, live=True)) as bulks:
            async for raws in bulks:
                moved = await self._folded(at, past.stock, raws)
                if moved is None:
                    return
                at = moved

    async def _past(self, known: int = 0) -> _Past:
        """Fold the whole stream, and note the digest of the event at stream sequence `known`."""
        past = _Past(await self.log.identity(self.tenant))
        async with aclosing(self.log.follow(0, live=False)) as bulks:
            async for raws in bulks:
                _told(past.stock.take(raws))
                past.position, past.hash = raws[-1].stream_sequence, digest_of(raws[-1].stored)
                there = (raw.stored for raw in raws if raw.stream_sequence == known)
                past.known = next(map(digest_of, there), past.known)
        return past

    async def _written(self, past: _Past) -> Shelved:
        everything = past.stock.everything()
        texts = await self._texts(everything)
        async with self.store.writing() as connection:
            begun = await begin(connection, past.log)
            after = replace(begun, position=past.position, hash=past.hash)
            await keep(connection, begun, after, everything, texts)
        self.bell.ring()
        return after

    async def _folded(self, at: Shelved, stock: Stock, raws: Sequence[Raw]) -> Shelved | None:
        changed = _told(stock.take(raws))
        texts = await self._texts(changed)
        last = raws[-1]
        after = replace(at, position=last.stream_sequence, hash=digest_of(last.stored))
        async with self.store.writing() as connection:
            kept = await keep(connection, at, after, changed, texts)
        self.bell.ring()
        return after if kept else None

    async def _texts(self, changed: Iterable[Changed]) -> Texts:
        wanted = {
            (each.shelf.tenant, version.text.digest)
            for each in changed
            for segment in each.segments
            for version in segment.latest.values()
        }
        return {place: text for place in wanted if (text := await self._text(*place)) is not None}

    async def _text(self, tenant: str, digest: Digest) -> str | None:
        try:
            return (await self.blobs.get(tenant, digest)).decode()
        except Corrupt as error:
            _log.error("segment-text-gone", tenant=tenant, digest=digest, reason=str(error))
            return None


@dataclass(slots=True)
class _Past:
    """The library stream, folded up to a position."""

    log: Identity
    stock: Stock = field(default_factory=Stock)
    position: int = 0
    hash: Digest | None = None
    known: Digest | None = None
    """Digest of the event at the position of the rows."""


def _prove(before: Shelved, past: _Past) -> None:
    """Raise `Corrupt` unless the rows come from this stream."""
    if before.log != past.log:
        raise Corrupt("LIBRARY", f"the rows come from one made at {before.log.created}: {_FIX}")
    if before.position and past.known != before.hash:
        raise Corrupt("LIBRARY", f"it holds another event at {before.position} than they: {_FIX}")
    if before.version > VERSION:
        detail = f"rows of version {before.version}, this release knows {VERSION}"
        raise Corrupt("read models", f"{detail}: run the later one")


def _told(changed: tuple[Changed, ...]) -> tuple[Changed, ...]:
    """Log an error for each tenant whose segments can no longer be folded."""
    for each in changed:
        if each.stopped:
            _log.error("library-stopped", tenant=each.shelf.tenant, reason=each.stopped)
    return changed
