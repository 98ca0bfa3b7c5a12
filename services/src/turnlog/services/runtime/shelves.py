"""The segment service: load a tenant's segments, decide a command, append its events.

Every event of a segment library is appended here. The state is cached between uses, and one read of
the library's last event (about 0.3 ms) shows whether it is still the latest. So an acknowledged
edit is visible to the next reader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, assert_never

from turnlog.events import codec
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Conflict, Corrupt, Refused, Unavailable
from turnlog.events.library import SEGMENTS, LibraryEvent
from turnlog.events.log.library import LibraryLog
from turnlog.events.log.outcomes import AlreadyThere, Appended, Conflicted, Unreachable
from turnlog.events.log.ports import Blobs
from turnlog.projections.library.commands import (
    AddSegment,
    EditSegment,
    ImportSegments,
    LibraryCommand,
)
from turnlog.projections.library.decide import decide
from turnlog.projections.library.shelf import Carried, Shelf, carried, fold
from turnlog.services.runtime.clock import Clock, Ids
from turnlog.services.runtime.sessions import By

MOST_TRIES: Final = 200
"""How often a command is decided again because another process appended first."""
AT_ONCE: Final = 64
"""Segment texts stored concurrently."""


@dataclass(frozen=True, slots=True)
class Shelved:
    """The result of a command: the library's state, and the segments that it changed."""

    shelf: Shelf
    carried: Carried


@dataclass
class Shelves:
    """The segments of all tenants, for one process."""

    log: LibraryLog
    blobs: Blobs
    clock: Clock
    new_id: Ids
    source: str
    """The `source` of appended events."""
    _held: dict[str, Shelf] = field(default_factory=dict[str, Shelf])
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict[str, asyncio.Lock])
    _reading: dict[str, asyncio.Lock] = field(default_factory=dict[str, asyncio.Lock])

    def held(self, tenant: str) -> Shelf | None:
        """Return the cached state of a tenant's segments without reading the log."""
        return self._held.get(tenant)

    async def load(self, tenant: str, *, leader: bool = False) -> Shelf:
        """Return the state of a tenant's segments; with `leader` it is never stale."""
        last = await self.log.last(tenant, SEGMENTS, leader=leader)
        held = self._held.get(tenant) or Shelf(tenant)
        came_to = last.sequence if last else 0
        if came_to < held.sequence and not leader:
            return await self.load(tenant, leader=True)
        if came_to < held.sequence or _another(last, held):
            raise Corrupt("LIBRARY", f"holds another history of {tenant}'s segments than it did")
        if last is None or came_to == held.sequence:
            return held
        return await self._read_on(tenant, last)

    async def load_at(self, tenant: str, moment: str) -> Shelf:
        """Return a tenant's segments as they were at an RFC 3339 time; the state is not cached."""
        last = await self.log.last(tenant, SEGMENTS)
        events = await self.log.between(tenant, SEGMENTS, None, last) if last else ()
        return fold([each for each in events if each.envelope.time <= moment], Shelf(tenant))

    async def _read_on(self, tenant: str, last: Recorded) -> Shelf:
        # Concurrent callers find the same new events; one of them reads them.
        async with self._reading.setdefault(tenant, asyncio.Lock()):
            held = self._held.get(tenant) or Shelf(tenant)
            if held.sequence >= last.sequence:
                return held
            return self._folded(await self.log.between(tenant, SEGMENTS, held.head, last), held)

    async def act(
        self, tenant: str, command: LibraryCommand, by: By, key: codec.Command | None = None
    ) -> Shelved:
        """Carry out a command; decide it again when another process appends first.

        Raises `Refused` when a rule rejects the command, `Unavailable` when the log gives no
        definite answer, and `Conflict` when others keep appending first.
        """
        async with self._locks.setdefault(tenant, asyncio.Lock()):
            return await self._act(tenant, command, by, key)

    async def _act(
        self, tenant: str, command: LibraryCommand, by: By, key: codec.Command | None
    ) -> Shelved:
        shelf = await self.load(tenant)
        for _ in range(MOST_TRIES):
            if key and (before := _carried_before(shelf, key)):
                return Shelved(shelf, before)
            events = decide(shelf, command)
            if not events:
                return Shelved(shelf, Carried(shelf.sequence))
            await self._store(tenant, _texts(command))
            drafts = [self._draft(event, by, key) for event in events]
            batch = codec.write_library(tenant, SEGMENTS, shelf.head, drafts)
            outcome = await self.log.append(batch)
            match outcome:
                case Appended(events=added) | AlreadyThere(events=added):
                    shelf = self._folded(added, shelf)
                    return Shelved(shelf, carried(added))
                case Conflicted():
                    shelf = await self.load(tenant, leader=True)
                case Unreachable(detail=detail):
                    raise Unavailable("library", detail)
                case _ as never:
                    assert_never(never)
        raise Conflict(SEGMENTS, shelf.sequence, None)

    def _draft(self, event: LibraryEvent, by: By, key: codec.Command | None) -> codec.Draft:
        return codec.Draft(
            event=event,
            id=self.new_id(),
            at=self.clock(),
            source=self.source,
            actor=by.actor,
            command=key,
            traceparent=by.traceparent,
        )

    async def _store(self, tenant: str, texts: Iterable[str]) -> None:
        wanted = tuple(dict.fromkeys(texts))
        for start in range(0, len(wanted), AT_ONCE):
            some = wanted[start : start + AT_ONCE]
            await asyncio.gather(*(self.blobs.put(tenant, text.encode()) for text in some))

    def _folded(self, events: Iterable[Recorded], shelf: Shelf) -> Shelf:
        folded = fold(events, shelf)
        held = self._held.get(shelf.tenant)
        if held is None or held.sequence < folded.sequence:
            self._held[shelf.tenant] = folded
        return folded


def _another(last: Recorded | None, held: Shelf) -> bool:
    return bool(last and held.head and last.sequence == held.sequence and last.head != held.head)


def _carried_before(shelf: Shelf, key: codec.Command) -> Carried | None:
    digest, before = shelf.commands.get(key.key, (key.hash, None))
    if digest != key.hash:
        raise Refused(
            "key-reused",
            "this key came with another body before",
            field="Idempotency-Key",
            fix="use a new key for a new request",
        )
    return before


def _texts(command: LibraryCommand) -> Iterable[str]:
    match command:
        case AddSegment(segment=authored):
            return (authored.content,)
        case EditSegment(content=content):
            return () if content is None else (content,)
        case ImportSegments(segments=rows):
            return (row.content for row in rows)
        case _ as never:
            assert_never(never)
