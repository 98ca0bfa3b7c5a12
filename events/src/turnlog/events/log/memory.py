"""The event store in memory, for unit tests and simulations.

It has the same compare-and-set, outcomes and order as the JetStream store and passes the same
contract tests. Nothing outlives the process, and no running service uses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from turnlog.events.codec import Batch, read
from turnlog.events.content import Digest, digest_of
from turnlog.events.envelope import Head, Recorded
from turnlog.events.errors import Corrupt
from turnlog.events.ids import checked_id, session_subject, session_subjects, stream_of
from turnlog.events.log.outcomes import AlreadyThere, Appended, Conflicted, Outcome
from turnlog.events.log.ports import Identity, Raw, Stamped
from turnlog.events.tokens import TokenEvent

BULK = 500


@dataclass
class MemoryLog:
    """All sessions in one list; an event's stream sequence is its index plus one."""

    created: str = "1970-01-01T00:00:00Z"
    stored: list[Raw | None] = field(default_factory=list[Raw | None])
    sessions: dict[tuple[str, str], list[int]] = field(
        default_factory=dict[tuple[str, str], list[int]]
    )
    grown: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def identity(self, tenant: str) -> Identity:
        """See `EventLog.get_identity`."""
        return Identity(stream_of(tenant), self.created)

    async def end(self, tenant: str) -> int:
        """See `EventLog.get_last_stream_sequence`."""
        stream_of(tenant)
        return len(self.stored)

    async def append(self, batch: Batch) -> Outcome:
        """See `EventLog.append_batch`."""
        places = self.sessions.setdefault((batch.tenant, batch.session), [])
        behind = batch.after.sequence if batch.after else 0
        if batch.after and batch.after.stream_sequence not in places[behind - 1 : behind]:
            return Conflicted(len(places))
        if there := [self._read(p) for p in places[behind : behind + len(batch.messages)]]:
            same = [event.stored for event in there] == [m.payload for m in batch.messages]
            return AlreadyThere(tuple(there)) if same else Conflicted(len(places))
        for message in batch.messages:
            self.stored.append(Raw(message.subject, len(self.stored) + 1, message.payload))
            places.append(len(self.stored))
        async with self.grown:
            self.grown.notify_all()
        return Appended(tuple(self._read(place) for place in places[behind:]))

    def lose(self, place: int) -> None:
        """Remove the event at a stream sequence, as a damaged store would."""
        self.stored[place - 1] = None

    def _read(self, place: int) -> Recorded:
        raw = self.stored[place - 1] if 0 < place <= len(self.stored) else None
        if raw is None:
            raise Corrupt(f"log {place}", "holds no event any more")
        return read(raw.stored, place)

    async def last(self, tenant: str, session: str, *, leader: bool = False) -> Recorded | None:
        """See `EventLog.read_last_event`; there is no follower that could be stale."""
        del leader
        places = self.sessions.get((tenant, checked_id(session, "session")))
        return self._read(places[-1]) if places else None

    async def between(
        self, tenant: str, session: str, after: Head | None, upto: Recorded
    ) -> Sequence[Recorded]:
        """See `EventLog.read_range`."""
        first = after.sequence if after else 0
        places = self.sessions.get((tenant, session), [])[first : upto.sequence]
        events = [self._read(place) for place in places]
        if events and events[0].envelope.prevhash != (after.hash if after else None):
            raise Corrupt(f"log {places[0]}", "does not continue the event before it")
        return events

    async def onward(
        self, tenant: str, session: str, after: Head | None, count: int
    ) -> Sequence[Recorded]:
        """See `EventLog.read_next_events`."""
        first = after.sequence if after else 0
        places = self.sessions.get((tenant, session), [])[first : first + count]
        events = [self._read(place) for place in places]
        if events and events[0].envelope.prevhash != (after.hash if after else None):
            raise Corrupt(f"log {places[0]}", "does not continue the event before it")
        return events

    async def find(self, tenant: str, session: str, sequence: int, upto: Recorded) -> Recorded:
        """See `EventLog.find_event`."""
        return (await self.between(tenant, session, None, upto))[sequence - 1]

    async def all_under(
        self, tenant: str, session: str, leaf: str, upto: Head
    ) -> Sequence[Recorded]:
        """See `EventLog.read_events_by_leaf`."""
        subject = session_subject(tenant, session, leaf)
        found = (self.stored[place - 1] for place in self.sessions.get((tenant, session), []))
        places = [each.stream_sequence for each in found if each and each.subject == subject]
        return [self._read(place) for place in places if place <= upto.stream_sequence]

    async def at(self, tenant: str, stream_sequences: Sequence[int]) -> Sequence[Recorded]:
        """See `EventLog.read_events_at`."""
        events = [self._read(place) for place in stream_sequences]
        for event in events:
            if event.tenant != tenant:
                raise Corrupt(f"log {event.stream_sequence}", f"is no event of tenant {tenant}")
        return events

    async def follow(
        self, tenant: str | None, after: int, *, live: bool
    ) -> AsyncGenerator[Sequence[Raw]]:
        """See `EventLog.stream_raw_events`."""
        prefix = session_subjects(tenant).removesuffix(">") if tenant else ""
        end = len(self.stored)
        given: Raw | None = None
        while live or after < end:
            if given and given not in self.stored[given.stream_sequence - 1 :][:1]:
                raise Corrupt(f"log {given.stream_sequence}", "no longer holds what it gave")
            found = self.stored[after : after + BULK if live else min(end, after + BULK)]
            after += len(found)
            if mine := [raw for raw in found if raw and raw.subject.startswith(prefix)]:
                given = mine[-1]
                yield mine
            if live and not found:
                async with self.grown:
                    while len(self.stored) <= after:
                        await self.grown.wait()

    async def watch(self, tenant: str, session: str, after: int = 0) -> AsyncGenerator[Recorded]:
        """See `EventLog.watch_session`."""
        places = self.sessions.setdefault((tenant, session), [])
        while True:
            for place in places[after:]:
                after += 1
                yield self._read(place)
            async with self.grown:
                while len(places) <= after:
                    await self.grown.wait()


@dataclass
class MemoryBlobs:
    """Blobs in a dictionary."""

    held: dict[tuple[str, Digest], bytes] = field(default_factory=dict[tuple[str, Digest], bytes])

    async def put(self, tenant: str, data: bytes) -> Digest:
        """See `BlobStore.put_blob`."""
        digest = digest_of(data)
        self.held[checked_id(tenant, "tenant"), digest] = data
        return digest

    async def get(self, tenant: str, digest: Digest) -> bytes:
        """See `BlobStore.get_blob`."""
        data = self.held.get((tenant, digest))
        if data is None or digest_of(data) != digest:
            raise Corrupt(f"blob {digest}", "gone, or its bytes have changed")
        return data


@dataclass
class MemorySnapshots:
    """Snapshots in a dictionary."""

    held: dict[tuple[str, str, int | None], bytes] = field(
        default_factory=dict[tuple[str, str, int | None], bytes]
    )

    async def put(
        self, tenant: str, session: str, data: bytes, waypoint: int | None = None
    ) -> None:
        """See `SnapshotStore.put_snapshot`."""
        self.held[tenant, session, waypoint] = data

    async def get(self, tenant: str, session: str, waypoint: int | None = None) -> bytes | None:
        """See `SnapshotStore.get_snapshot`."""
        return self.held.get((tenant, session, waypoint))


@dataclass
class MemoryTokens:
    """Token events in lists; `clear_all` loses them, as a restarted server does."""

    held: dict[tuple[str, str, int], list[Stamped]] = field(
        default_factory=dict[tuple[str, str, int], list[Stamped]]
    )
    grown: asyncio.Condition = field(default_factory=asyncio.Condition)

    def forget(self) -> None:
        """Remove all stored token events."""
        self.held.clear()

    async def publish(self, tenant: str, session: str, turn: int, event: TokenEvent) -> None:
        """See `TokenStream.publish_token`."""
        stamped = Stamped(event, datetime.now(UTC))
        self._held(tenant, session, turn).append(stamped)
        async with self.grown:
            self.grown.notify_all()

    async def close(self, tenant: str, session: str, turn: int, event: TokenEvent) -> bool:
        """See `TokenStream.publish_and_confirm`."""
        await self.publish(tenant, session, turn, event)
        return True

    async def recorded(self, tenant: str, session: str, turn: int) -> Sequence[Stamped]:
        """See `TokenStream.read_token_events`."""
        return tuple(self._held(tenant, session, turn))

    async def latest(self, tenant: str, session: str, turn: int) -> Stamped | None:
        """See `TokenStream.read_latest_event`."""
        held = self._held(tenant, session, turn)
        return held[-1] if held else None

    async def silence(self, tenant: str, session: str, turn: int) -> float | None:
        """See `TokenStream.measure_silence`."""
        held = self._held(tenant, session, turn)
        return (datetime.now(UTC) - held[-1].at).total_seconds() if held else None

    @asynccontextmanager
    async def watch(
        self, tenant: str, session: str, turn: int
    ) -> AsyncGenerator[AsyncGenerator[TokenEvent]]:
        """See `TokenStream.watch_turn`."""
        events = self._events(tenant, session, turn)
        try:
            yield events
        finally:
            await events.aclose()

    async def _events(self, tenant: str, session: str, turn: int) -> AsyncGenerator[TokenEvent]:
        held = self._held(tenant, session, turn)
        seen = 0
        while True:
            for stamped in held[seen:]:
                seen += 1
                yield stamped.event
            async with self.grown:
                while len(held) <= seen and held is self._held(tenant, session, turn):
                    await self.grown.wait()
            if held is not self._held(tenant, session, turn):
                held, seen = self._held(tenant, session, turn), 0

    def _held(self, tenant: str, session: str, turn: int) -> list[Stamped]:
        return self.held.setdefault((tenant, session, turn), [])
