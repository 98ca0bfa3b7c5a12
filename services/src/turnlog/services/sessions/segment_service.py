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
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Conflict, Corrupt, Refused, Unavailable
from turnlog.events.ids import LIBRARY_HISTORY
from turnlog.events.model.segment_events import SEGMENT_FAMILY
from turnlog.events.registry import LibraryEvent
from turnlog.events.store.append_outcomes import (
    BatchAlreadyStored,
    BatchAppended,
    BatchConflict,
    LogUnreachable,
)
from turnlog.events.store.ports import BlobStore, EventLog
from turnlog.projections.library.library_decisions import decide
from turnlog.projections.library.segment_inputs import (
    AddSegment,
    EditSegment,
    ImportSegments,
    LibraryCommand,
)
from turnlog.projections.library.segment_library import (
    LibraryCommandResult,
    SegmentLibrary,
    build_command_result,
    fold,
)
from turnlog.services.platform.clock import Clock, CreateId
from turnlog.services.sessions.command_handler import CommandMetadata

MAX_DECISION_RETRIES: Final = 200
"""How often a command is decided again because another process appended first."""

BLOB_WRITE_BATCH: Final = 64
"""Segment texts stored concurrently."""


@dataclass(frozen=True, slots=True)
class LibraryCommandOutcome:
    """The result of a command: the library's state, and the segments that it changed."""

    library_state: SegmentLibrary
    changes: LibraryCommandResult


@dataclass
class SegmentService:
    """The segments of all tenants, for one process."""

    log: EventLog
    blobs: BlobStore
    clock: Clock
    create_id: CreateId
    source: str
    """The `source` of appended events."""
    _cached_states: dict[str, SegmentLibrary] = field(default_factory=dict[str, SegmentLibrary])
    _write_locks: dict[str, asyncio.Lock] = field(default_factory=dict[str, asyncio.Lock])
    _read_locks: dict[str, asyncio.Lock] = field(default_factory=dict[str, asyncio.Lock])

    def get_cached_state(self, tenant: str) -> SegmentLibrary | None:
        """Return the cached state of a tenant's segments without reading the log."""
        return self._cached_states.get(tenant)

    async def load_state(self, tenant: str, *, leader: bool = False) -> SegmentLibrary:
        """Return the state of a tenant's segments; with `leader` it is never stale."""
        last = await self.log.read_last_event(tenant, SEGMENT_FAMILY, leader=leader)
        held = self._cached_states.get(tenant) or SegmentLibrary(tenant)
        came_to = last.sequence if last else 0
        if came_to < held.sequence and not leader:
            return await self.load_state(tenant, leader=True)
        if came_to < held.sequence or _is_other_history(last, held):
            raise Corrupt("LIBRARY", f"the segment history of tenant {tenant} changed")
        if last is None or came_to == held.sequence:
            return held
        return await self._fold_new_events(tenant, last)

    async def load_state_at(self, tenant: str, at_time: str) -> SegmentLibrary:
        """Return a tenant's segments as they were at an RFC 3339 time; the state is not cached."""
        last = await self.log.read_last_event(tenant, SEGMENT_FAMILY)
        events = await self.log.read_range(tenant, SEGMENT_FAMILY, None, last) if last else ()
        return fold(
            [each for each in events if each.envelope.time <= at_time], SegmentLibrary(tenant)
        )

    async def _fold_new_events(self, tenant: str, last: RecordedEvent) -> SegmentLibrary:
        # Concurrent callers find the same new events; one of them reads them.
        async with self._read_locks.setdefault(tenant, asyncio.Lock()):
            held = self._cached_states.get(tenant) or SegmentLibrary(tenant)
            if held.sequence >= last.sequence:
                return held
            return self._fold_and_cache(
                await self.log.read_range(tenant, SEGMENT_FAMILY, held.head, last), held
            )

    async def handle(
        self,
        tenant: str,
        command: LibraryCommand,
        metadata: CommandMetadata,
        key: codec.CommandRef | None = None,
    ) -> LibraryCommandOutcome:
        """Carry out a command; decide it again when another process appends first.

        Raises `Refused` when a rule rejects the command, `Unavailable` when the log gives no
        definite answer, and `Conflict` when others keep appending first.
        """
        async with self._write_locks.setdefault(tenant, asyncio.Lock()):
            return await self._handle_locked(tenant, command, metadata, key)

    async def _handle_locked(
        self,
        tenant: str,
        command: LibraryCommand,
        metadata: CommandMetadata,
        key: codec.CommandRef | None,
    ) -> LibraryCommandOutcome:
        shelf = await self.load_state(tenant)
        for _ in range(MAX_DECISION_RETRIES):
            if key and (before := _find_recorded_outcome(shelf, key)):
                return LibraryCommandOutcome(shelf, before)
            events = decide(shelf, command)
            if not events:
                return LibraryCommandOutcome(shelf, LibraryCommandResult(shelf.sequence))
            await self._store_texts(tenant, _list_texts(command))
            drafts = [self._build_draft(event, metadata, key) for event in events]
            batch = codec.encode_batch(tenant, SEGMENT_FAMILY, shelf.head, drafts, LIBRARY_HISTORY)
            outcome = await self.log.append_batch(batch)
            match outcome:
                case BatchAppended(events=added) | BatchAlreadyStored(events=added):
                    shelf = self._fold_and_cache(added, shelf)
                    return LibraryCommandOutcome(shelf, build_command_result(added))
                case BatchConflict():
                    shelf = await self.load_state(tenant, leader=True)
                case LogUnreachable(detail=detail):
                    raise Unavailable("library", detail)
                case _ as never:
                    assert_never(never)
        raise Conflict(SEGMENT_FAMILY, shelf.sequence, None)

    def _build_draft(
        self, event: LibraryEvent, metadata: CommandMetadata, key: codec.CommandRef | None
    ) -> codec.EventDraft:
        return codec.EventDraft(
            event=event,
            id=self.create_id(),
            at=self.clock(),
            source=self.source,
            actor=metadata.actor,
            command=key,
            traceparent=metadata.traceparent,
        )

    async def _store_texts(self, tenant: str, texts: Iterable[str]) -> None:
        wanted = tuple(dict.fromkeys(texts))
        for start in range(0, len(wanted), BLOB_WRITE_BATCH):
            some = wanted[start : start + BLOB_WRITE_BATCH]
            await asyncio.gather(*(self.blobs.put_blob(tenant, text.encode()) for text in some))

    def _fold_and_cache(
        self, events: Iterable[RecordedEvent], shelf: SegmentLibrary
    ) -> SegmentLibrary:
        folded = fold(events, shelf)
        held = self._cached_states.get(shelf.tenant)
        if held is None or held.sequence < folded.sequence:
            self._cached_states[shelf.tenant] = folded
        return folded


def _is_other_history(last: RecordedEvent | None, held: SegmentLibrary) -> bool:
    return bool(last and held.head and last.sequence == held.sequence and last.head != held.head)


def _find_recorded_outcome(
    shelf: SegmentLibrary, key: codec.CommandRef
) -> LibraryCommandResult | None:
    digest, before = shelf.commands_by_key.get(key.key, (key.hash, None))
    if digest != key.hash:
        raise Refused(
            "key-reused",
            "this key was used before with a different body",
            field="Idempotency-Key",
            fix="use a new key for a new request",
        )
    return before


def _list_texts(command: LibraryCommand) -> Iterable[str]:
    match command:
        case AddSegment(segment=authored):
            return (authored.content,)
        case EditSegment(content=content):
            return () if content is None else (content,)
        case ImportSegments(segments=rows):
            return (row.content for row in rows)
        case _ as never:
            assert_never(never)
