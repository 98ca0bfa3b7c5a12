"""The event store in memory, for unit tests and simulations.

It has the same compare-and-set, outcomes and order as the JetStream store and passes the same
contract tests. Nothing outlives the process, and no running service uses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from typing import Generic, TypeVar

from turnlog.events.async_tasks import Watch, stream_watch
from turnlog.events.chain_link import is_next_event
from turnlog.events.codec import EventBatch, decode_event
from turnlog.events.content import Digest, compute_digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import (
    AlteredBlob,
    AlteredMedia,
    Corrupt,
    KeyringMissing,
    StreamHole,
    UnreadableEnd,
)
from turnlog.events.ids import validate_id
from turnlog.events.seals.leaf_sets import LeafSets
from turnlog.events.store.media_chunks import (
    ReceivedMedia,
    StoredMedia,
    iterate_bytes,
    receive_media,
)
from turnlog.events.store.ports import (
    AppendOutcome,
    BatchAlreadyStored,
    BatchAppended,
    BatchConflict,
    LogIdentity,
    PublishedToken,
    RawEvent,
    StampedTokenEvent,
    TurnTokenEvent,
)
from turnlog.events.stray_messages import is_stray, parse_history_key
from turnlog.events.subjects import (
    SESSION_HISTORY,
    HistoryKind,
    build_blob_subject,
    build_media_subject,
)
from turnlog.events.tokens import TokenEvent

MEMORY_BATCH_EVENTS = 500

StoredT = TypeVar("StoredT")

ItemT = TypeVar("ItemT")


@dataclass
class MemoryWatch(Generic[StoredT, ItemT]):
    """A watch of a list that grows, or is replaced by an empty one."""

    get_list: Callable[[], Sequence[StoredT]]
    read_item: Callable[[StoredT], ItemT]
    taken: int
    watched: Sequence[StoredT] | None = None

    async def take_next(self) -> ItemT | None:
        """See `Watch.take_next`."""
        current = self.get_list()
        if self.watched is not None and self.watched is not current:
            self.taken = 0
        self.watched = current
        if len(current) <= self.taken:
            return None
        self.taken += 1
        return self.read_item(current[self.taken - 1])


@dataclass(kw_only=True)
class MemoryLog:
    """All histories of a kind in one list; an event's stream sequence is its index plus one.

    A stray message is in that list and in no history.
    """

    created: str = "1970-01-01T00:00:00Z"
    kind: HistoryKind = SESSION_HISTORY
    stored: list[RawEvent | None] = field(default_factory=list[RawEvent | None])
    sessions: dict[tuple[str, str], list[int]] = field(
        default_factory=dict[tuple[str, str], list[int]]
    )
    grown: asyncio.Condition = field(default_factory=asyncio.Condition)
    wakes: list[asyncio.Event] = field(default_factory=list[asyncio.Event])
    """Those of the watches that are open."""

    async def get_identity(self, tenant: str) -> LogIdentity:
        """See `EventLog.get_identity`."""
        return LogIdentity(self.kind.find_stream(tenant), self.created)

    async def get_last_stream_sequence(self, tenant: str) -> int:
        """See `EventLog.get_last_stream_sequence`."""
        self.kind.find_stream(tenant)
        return len(self.stored)

    async def append_batch(self, batch: EventBatch) -> AppendOutcome:
        """See `EventLog.append_batch`."""
        places = self.sessions.setdefault((batch.tenant, batch.session), [])
        behind = batch.after.sequence if batch.after else 0
        if unreadable := await self.find_unreadable_end(batch.tenant, batch.session):
            if unreadable.sequence > behind:
                return BatchConflict(unreadable.sequence)
            raise unreadable
        if batch.after and batch.after.stream_sequence not in places[behind - 1 : behind]:
            return BatchConflict(len(places))
        if stored := [self._read_event(p) for p in places[behind : behind + len(batch.messages)]]:
            same = [event.stored for event in stored] == [m.payload for m in batch.messages]
            return BatchAlreadyStored(tuple(stored)) if same else BatchConflict(len(places))
        first = len(self.stored) + 1
        for message in batch.messages:
            self.stored.append(RawEvent(message.subject, len(self.stored) + 1, message.payload))
            places.append(len(self.stored))
        async with self.grown:
            self.grown.notify_all()
        for wake in self.wakes:
            wake.set()
        return BatchAppended(
            tuple(message.record_at(place) for place, message in enumerate(batch.messages, first))
        )

    def store_message(self, subject: str, stored: bytes) -> int:
        """Store a message as a stranger's publish would; return its stream sequence."""
        place = len(self.stored) + 1
        self.stored.append(RawEvent(subject, place, stored))
        if not is_stray(subject, stored):
            self.sessions.setdefault(parse_history_key(subject), []).append(place)
        for wake in self.wakes:
            wake.set()
        return place

    async def attach_keys(self, raws: Sequence[RawEvent]) -> Sequence[RawEvent]:
        """See `EventLog.attach_keys`; it has no keys."""
        return raws

    async def decode_event(self, stored: bytes, stream_sequence: int) -> RecordedEvent:
        """See `EventLog.decode_event`."""
        return decode_event(stored, stream_sequence)

    def drop_event(self, place: int) -> None:
        """Remove the event at a stream sequence, as a damaged store would."""
        self.stored[place - 1] = None

    def _read_event(self, place: int) -> RecordedEvent:
        raw = self.stored[place - 1] if 0 < place <= len(self.stored) else None
        if raw is None:
            raise Corrupt(f"log {place}", "has no event any more")
        return decode_event(raw.stored, place)

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        """See `EventLog.read_last_event`; there is no follower that could be stale."""
        del leader
        places = self.sessions.get((tenant, validate_id(session, self.kind.id_name)), [])
        readable_count = self._count_readable(places)
        return self._read_event(places[readable_count - 1]) if readable_count else None

    async def find_unreadable_end(self, tenant: str, session: str) -> UnreadableEnd | None:
        """See `EventLog.find_unreadable_end`."""
        places = self.sessions.get((tenant, session), [])
        readable_count = self._count_readable(places)
        if readable_count == len(places):
            return None
        place = places[readable_count]
        fault = self._find_fault(place, readable_count + 1)
        if fault is None:
            return None
        return self._build_unreadable_end(session, readable_count, place, fault)

    def _build_unreadable_end(
        self, session: str, sequence: int, place: int, fault: Corrupt
    ) -> UnreadableEnd:
        return UnreadableEnd(
            history=f"{self.kind.prefix} {session}",
            sequence=sequence,
            position=place,
            reason=fault.detail,
        )

    def _count_readable(self, places: Sequence[int]) -> int:
        """Return the number of events before the messages at the end that are none."""
        count = len(places)
        while count and self._find_fault(places[count - 1], count):
            count -= 1
        return count

    def _find_fault(self, place: int, sequence: int) -> Corrupt | None:
        """Return why a stored message is not the event at a sequence; None for a lost one."""
        raw = self.stored[place - 1]
        if raw is None:
            return None
        try:
            event = decode_event(raw.stored, place)
        except Corrupt as fault:
            return fault
        if event.sequence != sequence:
            return Corrupt(f"log {place}", "it does not continue the event before it")
        return None

    async def has_stray_messages(self, tenant: str, session: str) -> bool:
        """See `EventLog.has_stray_messages`."""
        key = (tenant, session)
        count = sum(
            raw is not None and parse_history_key(raw.subject) == key for raw in self.stored
        )
        return count > len(self.sessions.get(key, ()))

    async def list_tenants(self, session: str) -> Sequence[str]:
        """See `EventLog.list_tenants`."""
        return sorted(tenant for tenant, history in self.sessions if history == session)

    async def find_last_position(self, tenant: str, leaf: str) -> int:
        """See `EventLog.find_last_position`."""
        found = await self.read_raw_events_by_leaf(tenant, leaf)
        return found[-1].stream_sequence if found else 0

    async def read_range(
        self, tenant: str, session: str, after: ChainHead | None, upto: RecordedEvent
    ) -> Sequence[RecordedEvent]:
        """See `EventLog.read_range`."""
        first = after.sequence if after else 0
        places = self.sessions.get((tenant, session), [])[first : upto.sequence]
        events = [self._read_event(place) for place in places]
        if events and not is_next_event(events[0], after):
            raise Corrupt(f"log {places[0]}", "does not continue the event before it")
        return events

    async def read_next_events(
        self, tenant: str, session: str, after: ChainHead | None, count: int
    ) -> Sequence[RecordedEvent]:
        """See `EventLog.read_next_events`."""
        first = after.sequence if after else 0
        places = self.sessions.get((tenant, session), [])[first : first + count]
        events = [self._read_event(place) for place in places]
        if events and not is_next_event(events[0], after):
            raise Corrupt(f"log {places[0]}", "does not continue the event before it")
        return events

    async def find_event(
        self, tenant: str, session: str, sequence: int, upto: RecordedEvent
    ) -> RecordedEvent:
        """See `EventLog.find_event`."""
        return (await self.read_range(tenant, session, None, upto))[sequence - 1]

    async def read_events_by_leaf(
        self, tenant: str, session: str, leaf: str, upto: ChainHead
    ) -> Sequence[RecordedEvent]:
        """See `EventLog.read_events_by_leaf`."""
        subject = self.kind.build_subject(tenant, session, leaf)
        events: list[RecordedEvent] = []
        for place in self.sessions.get((tenant, session), []):
            if place > upto.stream_sequence:
                break
            raw = await self.read_raw_event(place)
            if raw is None:
                raise StreamHole(self.kind.stream, place, place)
            if raw.subject == subject:
                events.append(self._read_event(place))
        return events

    async def read_raw_events_by_leaf(
        self, tenant: str, leaf: str, after: int = 0
    ) -> Sequence[RawEvent]:
        """See `EventLog.read_raw_events_by_leaf`."""
        prefix, ending = self.kind.build_filter(tenant).removesuffix(">"), f".{leaf}"
        ours = [raw for raw in self.stored[after:] if raw and raw.subject.startswith(prefix)]
        return [raw for raw in ours if raw.subject.endswith(ending)]

    async def read_raw_event(self, stream_sequence: int) -> RawEvent | None:
        """See `EventLog.read_raw_event`."""
        return self.stored[stream_sequence - 1] if stream_sequence <= len(self.stored) else None

    async def read_events_at(
        self, tenant: str, stream_sequences: Sequence[int]
    ) -> Sequence[RecordedEvent]:
        """See `EventLog.read_events_at`."""
        events = [self._read_event(place) for place in stream_sequences]
        for event in events:
            if event.tenant != tenant:
                raise Corrupt(f"log {event.stream_sequence}", f"is no event of tenant {tenant}")
        return events

    async def stream_raw_events(
        self, tenant: str | None, after: int, *, live: bool
    ) -> AsyncGenerator[Sequence[RawEvent]]:
        """See `EventLog.stream_raw_events`."""
        prefix = self.kind.build_filter(tenant).removesuffix(">") if tenant else ""
        end = len(self.stored)
        last_yielded: RawEvent | None = None
        while live or after < end:
            if (
                last_yielded
                and last_yielded not in self.stored[last_yielded.stream_sequence - 1 :][:1]
            ):
                raise Corrupt(
                    f"log {last_yielded.stream_sequence}",
                    "no longer has an event that it returned before",
                )
            found = self.stored[
                after : after + MEMORY_BATCH_EVENTS
                if live
                else min(end, after + MEMORY_BATCH_EVENTS)
            ]
            whole = list(takewhile(bool, found))
            after += len(whole)
            if mine := [raw for raw in whole if raw and raw.subject.startswith(prefix)]:
                last_yielded = mine[-1]
                yield mine
            if len(whole) < len(found):
                lost = list(takewhile(lambda raw: raw is None, self.stored[after:]))
                raise StreamHole(self.kind.stream, after + 1, after + len(lost))
            if live and not found:
                async with self.grown:
                    while len(self.stored) <= after:
                        await self.grown.wait()

    @asynccontextmanager
    async def open_session_watch(
        self, tenant: str, session: str, after: int, wake: asyncio.Event
    ) -> AsyncGenerator[Watch[RecordedEvent]]:
        """See `EventLog.open_session_watch`."""
        self.wakes.append(wake)
        try:
            places = self.sessions.setdefault((tenant, session), [])
            yield MemoryWatch(lambda: places, partial(self._read_watched, session, places), after)
        finally:
            self.wakes.remove(wake)

    def _read_watched(self, session: str, places: Sequence[int], place: int) -> RecordedEvent:
        taken = places.index(place)
        if fault := self._find_fault(place, taken + 1):
            raise self._build_unreadable_end(session, taken, place, fault)
        return self._read_event(place)

    async def watch_session(
        self, tenant: str, session: str, after: int = 0
    ) -> AsyncGenerator[RecordedEvent]:
        """See `EventLog.watch_session`."""
        wake = asyncio.Event()
        async with (
            self.open_session_watch(tenant, session, after, wake) as watch,
            aclosing(stream_watch(wake, watch)) as events,
        ):
            async for event in events:
                yield event


@dataclass
class MemoryBlobStore:
    """Blobs in a dictionary."""

    blobs: dict[tuple[str, Digest], bytes] = field(default_factory=dict[tuple[str, Digest], bytes])

    async def put_blob(self, tenant: str, data: bytes) -> Digest:
        """See `BlobStore.put_blob`."""
        digest = compute_digest(data)
        self.blobs[validate_id(tenant, "tenant"), digest] = data
        return digest

    async def put_turn_blob(self, tenant: str, data: bytes, leaves: LeafSets | None) -> Digest:
        """See `TurnBlobStore.put_turn_blob`; it has no keyring."""
        if leaves is not None:
            raise KeyringMissing("a text of this session")
        return await self.put_blob(tenant, data)

    async def get_blob(self, tenant: str, digest: Digest) -> bytes:
        """See `BlobStore.get_blob`."""
        data = self.blobs.get((tenant, digest))
        if data is None:
            raise Corrupt(f"blob {digest}", "it is gone")
        if compute_digest(data) != digest:
            raise AlteredBlob(digest, data)
        return data

    async def stream_raw_blobs(self, after: int) -> AsyncGenerator[Sequence[RawEvent]]:
        """See `BlobStore.stream_raw_blobs`; blobs are numbered as they were stored."""
        stored = [
            RawEvent(build_blob_subject(tenant, digest), place, data)
            for place, ((tenant, digest), data) in enumerate(self.blobs.items(), 1)
        ]
        if rest := stored[after:]:
            yield rest


@dataclass
class MemoryMediaStore:
    """Media in a dictionary."""

    media: dict[tuple[str, Digest], bytes] = field(default_factory=dict[tuple[str, Digest], bytes])

    async def put_media(
        self,
        tenant: str,
        data: AsyncIterable[bytes],
        *,
        most_bytes: int,
        expected: Digest | None = None,
    ) -> StoredMedia:
        """See `MediaStore.put_media`."""
        received = await receive_media(data, most_bytes=most_bytes, expected=expected)
        return await self.put_received(tenant, received)

    async def put_received(self, tenant: str, received: ReceivedMedia) -> StoredMedia:
        """See `MediaStore.put_received`."""
        build_media_subject(tenant, received.item.digest)
        self.media[tenant, received.item.digest] = b"".join(received.chunks)
        return received.item

    async def seal_received(
        self, tenant: str, received: ReceivedMedia, leaves: LeafSets
    ) -> tuple[Digest, ReceivedMedia]:
        """See `MediaStore.seal_received`; it has no keyring."""
        del tenant, received, leaves
        raise KeyringMissing("a picture or a file of this session")

    async def seal_upload(self, tenant: str, received: ReceivedMedia) -> ReceivedMedia:
        """See `MediaStore.seal_upload`; it seals none."""
        del tenant
        return received

    async def get_media(self, tenant: str, digest: Digest) -> bytes:
        """See `MediaStore.get_media`."""
        build_media_subject(tenant, digest)
        data = self.media.get((tenant, digest))
        if data is None:
            raise Corrupt(f"media {digest}", "it is gone")
        if compute_digest(data) != digest:
            raise AlteredMedia(digest, "its bytes have changed")
        return data

    async def stream_media(self, tenant: str, digest: Digest) -> AsyncGenerator[bytes]:
        """See `MediaStore.stream_media`."""
        async for chunk in iterate_bytes(await self.get_media(tenant, digest)):
            yield chunk

    async def find_media(self, tenant: str, digest: Digest) -> StoredMedia | None:
        """See `MediaStore.find_media`."""
        build_media_subject(tenant, digest)
        data = self.media.get((tenant, digest))
        return None if data is None else StoredMedia(digest, len(data))

    async def iterate_media(self, tenant: str) -> AsyncGenerator[StoredMedia]:
        """See `MediaStore.iterate_media`."""
        for (owner, digest), data in tuple(self.media.items()):
            if owner == tenant:
                yield StoredMedia(digest, len(data))


@dataclass
class MemorySnapshotStore:
    """Snapshots in a dictionary."""

    snapshots: dict[tuple[str, str, int | None], bytes] = field(
        default_factory=dict[tuple[str, str, int | None], bytes]
    )

    async def put_snapshot(
        self, tenant: str, session: str, data: bytes, interval: int | None = None
    ) -> None:
        """See `SnapshotStore.put_snapshot`."""
        self.snapshots[tenant, session, interval] = data

    async def get_snapshot(
        self, tenant: str, session: str, interval: int | None = None
    ) -> bytes | None:
        """See `SnapshotStore.get_snapshot`."""
        return self.snapshots.get((tenant, session, interval))


@dataclass
class MemoryTokenStream:
    """Token events in lists; `clear_all` loses them, as a restarted server does."""

    events_by_turn: dict[tuple[str, str, int], list[StampedTokenEvent]] = field(
        default_factory=dict[tuple[str, str, int], list[StampedTokenEvent]]
    )
    published: dict[str, list[PublishedToken]] = field(
        default_factory=dict[str, list[PublishedToken]]
    )
    """All of each tenant in the order of their publication."""
    wakes: list[asyncio.Event] = field(default_factory=list[asyncio.Event])
    """Those of the watches that are open."""

    def clear_all(self) -> None:
        """Remove all stored token events."""
        self.events_by_turn.clear()

    async def publish_token(self, tenant: str, session: str, turn: int, event: TokenEvent) -> None:
        """See `TokenStream.publish_token`."""
        stamped = StampedTokenEvent(event, datetime.now(UTC))
        self._get_events(tenant, session, turn).append(stamped)
        self.published.setdefault(tenant, []).append((session, TurnTokenEvent(turn, event)))
        for wake in self.wakes:
            wake.set()

    async def publish_and_confirm(
        self, tenant: str, session: str, turn: int, event: TokenEvent
    ) -> bool:
        """See `TokenStream.publish_and_confirm`."""
        await self.publish_token(tenant, session, turn, event)
        return True

    async def read_token_events(
        self, tenant: str, session: str, turn: int
    ) -> Sequence[StampedTokenEvent]:
        """See `TokenStream.read_token_events`."""
        return tuple(self._get_events(tenant, session, turn))

    async def read_latest_event(
        self, tenant: str, session: str, turn: int
    ) -> StampedTokenEvent | None:
        """See `TokenStream.read_latest_event`."""
        events = self._get_events(tenant, session, turn)
        return events[-1] if events else None

    async def measure_silence(self, tenant: str, session: str, turn: int) -> float | None:
        """See `TokenStream.measure_silence`."""
        events = self._get_events(tenant, session, turn)
        return (datetime.now(UTC) - events[-1].at).total_seconds() if events else None

    @asynccontextmanager
    async def open_turn_watch(
        self, tenant: str, session: str, turn: int, wake: asyncio.Event, *, is_new: bool = False
    ) -> AsyncGenerator[Watch[TokenEvent]]:
        """See `TokenStream.open_turn_watch`."""
        del is_new
        get_events = partial(self._get_events, tenant, session, turn)
        self.wakes.append(wake)
        try:
            yield MemoryWatch(get_events, lambda stamped: stamped.event, 0)
        finally:
            self.wakes.remove(wake)

    @asynccontextmanager
    async def open_tenant_watch(
        self, tenant: str, wake: asyncio.Event
    ) -> AsyncGenerator[Watch[PublishedToken]]:
        """See `TokenStream.open_tenant_watch`."""
        published = self.published.setdefault(tenant, [])
        self.wakes.append(wake)
        try:
            yield MemoryWatch(lambda: published, lambda token: token, len(published))
        finally:
            self.wakes.remove(wake)

    def _get_events(self, tenant: str, session: str, turn: int) -> list[StampedTokenEvent]:
        return self.events_by_turn.setdefault((tenant, session, turn), [])
