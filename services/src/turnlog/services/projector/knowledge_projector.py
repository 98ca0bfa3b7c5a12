"""The knowledge projector: keeps rows and search index of knowledge up to date.

It folds from where the index is. An index of another version or of another embedder is built again
from the first event, beside the former one, which is kept up to date meanwhile if its embedder can
still be had. Like the other projectors it waits for what cannot be reached, the embedder included,
and ends if the stream does not match the index.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from turnlog.events.async_tasks import run_tasks
from turnlog.events.chain_link import find_chain_break
from turnlog.events.codec import decode_event, decode_knowledge_event
from turnlog.events.content import Digest, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.jetstream.nats_connection import wait_backoff
from turnlog.events.model.knowledge_events import (
    KNOWLEDGE_FAMILY,
    KnowledgeAdded,
    KnowledgeEdited,
    KnowledgeEntry,
    KnowledgeRemoved,
)
from turnlog.events.model.redaction_events import SourceErasureBegun
from turnlog.events.store.ports import BlobStore, EventLog, RawEvent
from turnlog.events.stray_messages import is_stray
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.knowledge.knowledge_builds import (
    DAMAGED_VERSION,
    KNOWLEDGE_VERSION,
    KnowledgePosition,
    begin_knowledge_build,
    clear_former_builds,
    prepare_knowledge_build,
    read_build_position,
    read_knowledge_position,
)
from turnlog.projections.store.knowledge.knowledge_projection import (
    EntryChange,
    KnowledgeHistory,
    TenantChanges,
    Vector,
    read_histories,
    read_vector_length,
    write_knowledge,
)
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.services.integrity.rollback_confirmation import CONFIRM_SECONDS
from turnlog.services.knowledge.embedders import CheckedEmbedder
from turnlog.services.projector.library_reads import load_library_text, verify_library_position
from turnlog.services.projector.projector_outages import OutageLog, run_rounds

EVENTS_PER_WRITE: Final = 10
"""Events written in one transaction, so that no other writer of SQLite waits for long."""

DAMAGE_INTERVAL: Final = 2.0
"""Seconds between two looks whether a search has found the index damaged."""

_NUMBER_BITS: Final = 12
"""Bits of an entry's number for its place in the event; an event has fewer entries."""

_TEXT_READS: Final = 64
"""Texts read concurrently."""


_log = structlog.get_logger("turnlog.projector")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeProjector:
    """Keeps the index of knowledge up to date."""

    log: EventLog
    blobs: BlobStore
    store: ReadModelStore
    tenant: str
    """Any tenant of the stream."""
    signal: ProjectionSignal
    """Notified after every commit, for readers in this process."""
    embedder: CheckedEmbedder
    patience: float = CONFIRM_SECONDS
    """Seconds for which a log must be too short to count as rolled back."""
    damage_interval: float = DAMAGE_INTERVAL
    """Seconds between two looks whether a search has found the index damaged."""

    async def run(self) -> None:
        """Keep the index up to date; ends by cancellation, or with `Corrupt`."""
        await run_rounds(self._run_round)

    async def rebuild_index(self) -> int:
        """Build the index from the first event; return the stream sequence it is folded to."""
        await prepare_schema(self.store)
        at: KnowledgePosition | None = None
        folded: KnowledgePosition | None = None
        while folded is None:
            # A running projector may fold the same build; whichever is first moves the position.
            at = at and await self._read_build(at.build)
            at = at or await self._begin_build()
            folded = await self._fold_present_events(at)
        await clear_former_builds(self.store)
        return folded.position

    async def _run_round(self, _outage: OutageLog) -> None:
        """Fold until another process moves the position, or another build is active."""
        await prepare_schema(self.store)
        async with self.store.open_reader() as connection:
            before = await read_knowledge_position(connection)
        if before:
            await verify_library_position(
                self.log,
                self.tenant,
                before,
                KNOWLEDGE_VERSION,
                what="an index",
                seconds=self.patience,
            )
        await clear_former_builds(self.store)
        log = await self.log.get_identity(self.tenant)
        version = await self.embedder.load_version()
        async with self.store.open_writer() as connection:
            at = await prepare_knowledge_build(connection, log, version)
        if at.is_active or before is None:
            async with run_tasks(self.follow_log(at), self._wait_for_damage(at)) as tasks:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            return
        if before.version == DAMAGED_VERSION:
            _log.warning("knowledge-index-rebuilding", reason="its rows are damaged")
        async with run_tasks(self._follow_former_build(before)):
            await self._fold_present_events(at)
        _log.info("knowledge-index-rebuilt", position=at.position)

    async def _wait_for_damage(self, at: KnowledgePosition) -> None:
        """Wait until a search finds the rows of a build damaged."""
        while True:
            await asyncio.sleep(self.damage_interval)
            with suppress(Unavailable):
                now = await self._read_build(at.build)
                if now is not None and now.version == DAMAGED_VERSION:
                    return

    async def _follow_former_build(self, at: KnowledgePosition) -> None:
        """Keep the build up to date that another takes the place of, as far as that is possible."""
        embedder = await self.embedder.find_version(at.embedder)
        if embedder is None or at.version != KNOWLEDGE_VERSION:
            return
        former = replace(self, embedder=embedder)
        outage = OutageLog()
        following: KnowledgePosition | None = at
        while following is not None:
            try:
                await former.follow_log(following)
            except Unavailable as error:
                outage.record_failure(error)
            await wait_backoff(outage.failures)
            following = await self._read_build(at.build)

    async def follow_log(self, at: KnowledgePosition) -> None:
        """Fold all events, and those to come, until another process moves the position."""
        moved = await self._fold_present_events(at)
        if moved is None:
            return
        async with aclosing(self.log.stream_raw_events(None, moved.position, live=True)) as bulks:
            async for raws in bulks:
                moved = await self._fold_batch(moved, raws)
                if moved is None:
                    return

    async def _begin_build(self) -> KnowledgePosition:
        log = await self.log.get_identity(self.tenant)
        version = await self.embedder.load_version()
        async with self.store.open_writer() as connection:
            return await begin_knowledge_build(connection, log, version)

    async def _read_build(self, build: int) -> KnowledgePosition | None:
        async with self.store.open_reader() as connection:
            return await read_build_position(connection, build)

    async def _fold_present_events(self, at: KnowledgePosition) -> KnowledgePosition | None:
        """Fold to the end of the stream; None if another process moved the position.

        A build takes the place of the active one only once it is as far.
        """
        moved: KnowledgePosition | None
        while True:
            async with aclosing(self.log.stream_raw_events(None, at.position, live=False)) as bulks:
                async for raws in bulks:
                    moved = await self._fold_batch(at, raws)
                    if moved is None:
                        return None
                    at = moved
            if at.is_complete:
                return at
            async with self.store.open_reader() as connection:
                active = await read_knowledge_position(connection)
            if active is None or at.position >= active.position:
                return await self._write(at, replace(at, is_complete=True), {})

    async def _fold_batch(
        self, at: KnowledgePosition, raws: Sequence[RawEvent]
    ) -> KnowledgePosition | None:
        for start in range(0, len(raws), EVENTS_PER_WRITE):
            some = raws[start : start + EVENTS_PER_WRITE]
            async with self.store.open_reader() as connection:
                batch = KnowledgeBatch(await read_histories(connection, at.build))
            batch.apply_events(some)
            changes = await self._complete_changes(batch)
            last = some[-1]
            after = replace(at, position=last.stream_sequence, hash=compute_digest(last.stored))
            moved = await self._write(at, after, changes)
            if moved is None:
                return None
            at = moved
        return at

    async def _write(
        self,
        before: KnowledgePosition,
        after: KnowledgePosition,
        changes: Mapping[str, TenantChanges],
    ) -> KnowledgePosition | None:
        async with self.store.open_writer() as connection:
            length = await read_vector_length(connection, before.build)
            for change in changes.values():
                _check_vector_lengths(before.embedder.name, length, change.puts.values())
            kept = await write_knowledge(connection, before, after, changes)
        self.signal.notify_readers()
        return after if kept else None

    async def _complete_changes(self, batch: KnowledgeBatch) -> Mapping[str, TenantChanges]:
        """Add texts and vectors to the changes of a batch."""
        for tenant, changes in batch.changes.items():
            puts = list(changes.puts.values())
            texts = await self._load_texts(tenant, [put.entry.digest for put in puts])
            found = [put for put in puts if put.entry.digest in texts]
            vectors = await self._compute_vectors(found, texts)
            for put in puts:
                digest, key = put.entry.digest, (put.collection, put.entry.id)
                changes.puts[key] = replace(
                    put, text=texts.get(digest), vector=vectors.get(put.number)
                )
        return batch.changes

    async def _compute_vectors(
        self, puts: Sequence[EntryChange], texts: Mapping[Digest, str]
    ) -> Mapping[int, Vector]:
        if not puts:
            return {}
        meanings = [build_meaning_text(put.entry, texts[put.entry.digest]) for put in puts]
        vectors = await self.embedder.embed_texts(meanings)
        return {put.number: vector for put, vector in zip(puts, vectors, strict=True)}

    async def _load_texts(self, tenant: str, digests: Sequence[Digest]) -> dict[Digest, str]:
        found: dict[Digest, str] = {}
        distinct = list(dict.fromkeys(digests))
        for start in range(0, len(distinct), _TEXT_READS):
            some = distinct[start : start + _TEXT_READS]
            texts = await asyncio.gather(*(self._load_text(tenant, each) for each in some))
            found |= {
                digest: text for digest, text in zip(some, texts, strict=True) if text is not None
            }
        return found

    async def _load_text(self, tenant: str, digest: Digest) -> str | None:
        return await load_library_text(self.blobs, tenant, digest, missing="knowledge-text-missing")


def build_meaning_text(entry: KnowledgeEntry, text: str) -> str:
    """Return what the vector of an entry is made from.

    A case fits a request if its question does, however it was solved: with the text of the solution
    even the very same question would be a poor match.
    """
    if entry.kind == "case" and entry.title:
        return entry.title
    return f"{entry.title}\n{text}".strip()


@dataclass(slots=True)
class KnowledgeBatch:
    """The changes of some events, by tenant."""

    histories: Mapping[str, KnowledgeHistory]
    changes: dict[str, TenantChanges] = field(default_factory=dict[str, TenantChanges])

    def apply_events(self, raws: Iterable[RawEvent]) -> None:
        """Apply stored events in order; events of other families are passed over."""
        for raw in raws:
            match raw.subject.split("."):
                case ["library", tenant, family, _] if family == KNOWLEDGE_FAMILY:
                    self._apply_event(tenant, raw)
                case _:
                    pass

    def _apply_event(self, tenant: str, raw: RawEvent) -> None:
        history = self.histories.get(tenant)
        change = self.changes.get(tenant)
        if (history and history.stopped) or (change and change.stopped):
            return
        if is_stray(raw.subject, raw.stored):
            return
        last = change or history
        sequence, digest = (last.sequence, last.hash) if last else (0, None)
        try:
            recorded = _decode_next(raw, tenant, sequence, digest)
        except Corrupt as error:
            _log.error("knowledge-stopped", tenant=tenant, reason=str(error))
            stopped = change or TenantChanges(sequence=sequence, hash=digest or "")
            stopped.stopped = str(error)
            self.changes[tenant] = stopped
            return
        if change is None:
            change = self.changes[tenant] = TenantChanges(
                sequence=recorded.sequence, hash=recorded.head.hash
            )
        change.sequence, change.hash = recorded.sequence, recorded.head.hash
        match decode_knowledge_event(recorded):
            case (
                KnowledgeAdded(collection=name, entries=entries)
                | KnowledgeEdited(collection=name, entries=entries)
            ):
                _put_entries(change, name, entries, recorded)
            case (
                KnowledgeRemoved(collection=name, entries=ids)
                | SourceErasureBegun(collection=str(name), entries=ids)
            ):
                for each in ids:
                    change.removed.add((name, each))
                    change.puts.pop((name, each), None)
            case _:
                pass


def _put_entries(
    change: TenantChanges,
    collection: str,
    entries: Iterable[KnowledgeEntry],
    recorded: RecordedEvent,
) -> None:
    for place, entry in enumerate(entries):
        key = (collection, entry.id)
        change.removed.add(key)
        change.puts[key] = EntryChange(
            number=(recorded.stream_sequence << _NUMBER_BITS) | place,
            collection=collection,
            entry=entry,
            text=None,
            vector=None,
            revision=recorded.sequence,
            edited_at=recorded.envelope.time,
            edited_by=recorded.envelope.actor,
        )


def _decode_next(raw: RawEvent, tenant: str, sequence: int, digest: Digest | None) -> RecordedEvent:
    """Decode an event; raise `Corrupt` if it does not follow in this tenant's history."""
    recorded = decode_event(raw.stored, raw.stream_sequence)
    place = f"LIBRARY, stream sequence {raw.stream_sequence}"
    if (recorded.tenant, recorded.session) != (tenant, KNOWLEDGE_FAMILY):
        raise Corrupt(place, f"says it is of {recorded.tenant}/{recorded.session}")
    if fault := find_chain_break(recorded, sequence, digest or None):
        raise Corrupt(place, fault)
    event = decode_knowledge_event(recorded)
    if isinstance(event, KnowledgeAdded | KnowledgeEdited):
        count = len(event.entries)
        if count > 1 << _NUMBER_BITS or len({each.id for each in event.entries}) < count:
            raise Corrupt(place, "more entries than an event may have, or one of them twice")
    return recorded


def _check_vector_lengths(embedder: str, length: int | None, puts: Iterable[EntryChange]) -> None:
    lengths = {len(put.vector) for put in puts if put.vector is not None}
    if length is not None and lengths - {length}:
        detail = f"{embedder}: vectors of {sorted(lengths)} numbers, those of the index have"
        raise Unavailable("embedder", f"{detail} {length}: run `turnlog rebuild`")
