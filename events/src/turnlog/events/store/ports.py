"""The ports of the event store: the log of histories, blobs, media, snapshots and tokens.

The memory implementations and the JetStream ones pass the same contract tests. Reads never scan: a
history's last event is looked up, and the rest is read by exact count. The outcomes of an append
are values, because each of them is an expected answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from turnlog.events.async_tasks import Watch
from turnlog.events.codec import EventBatch
from turnlog.events.content import Digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import UnreadableEnd
from turnlog.events.seals.leaf_sets import LeafSets
from turnlog.events.store.media_chunks import ReceivedMedia, StoredMedia
from turnlog.events.tokens import TokenEvent


@dataclass(frozen=True, slots=True)
class BatchAppended:
    """The batch was stored by this append."""

    events: tuple[RecordedEvent, ...]


@dataclass(frozen=True, slots=True)
class BatchAlreadyStored:
    """An earlier try had already stored the batch; `events` is as stored."""

    events: tuple[RecordedEvent, ...]


@dataclass(frozen=True, slots=True)
class BatchConflict:
    """Another event is stored in the batch's place; the batch is certainly not stored."""

    actual: int
    """The session's current sequence."""


@dataclass(frozen=True, slots=True)
class LogUnreachable:
    """The log gave no certain answer; if `ambiguous`, the batch may still be stored."""

    detail: str
    ambiguous: bool


AppendOutcome = BatchAppended | BatchAlreadyStored | BatchConflict | LogUnreachable


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """Identifies a log; a log that was lost and created again has another identity."""

    stream: str
    created: str
    """When the server created the stream, RFC 3339."""


@dataclass(frozen=True, slots=True)
class RawEvent:
    """Stored bytes that are not decoded yet; bulk readers decide how to treat invalid ones."""

    subject: str
    stream_sequence: int
    stored: bytes


class EventLog(Protocol):
    """The events of all histories of one kind: sessions, or families of a library.

    `session` is the history's id; of a library it is the family, such as its segments.
    """

    async def get_identity(self, tenant: str) -> LogIdentity:
        """Return the identity of the stream that holds the tenant's histories."""
        ...

    async def get_last_stream_sequence(self, tenant: str) -> int:
        """Return the stream sequence of the tenant's last event, or 0 if there is none."""
        ...

    async def append_batch(self, batch: EventBatch) -> AppendOutcome:
        """Append a batch by compare-and-set, all or nothing.

        An ambiguous answer is resolved at the stream's leader, and the same bytes are sent again
        until the log's `patience` is exhausted. Stray messages do not matter. Raises
        `UnreadableEnd` if a broken event is stored in the batch's place.
        """
        ...

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        """Return a history's last event, or None; only with `leader` is it never stale.

        Messages behind it that are no events of the history are passed over, like stray messages
        everywhere.
        """
        ...

    async def find_unreadable_end(self, tenant: str, session: str) -> UnreadableEnd | None:
        """Return the first event behind a history's last one that is broken, or None."""
        ...

    async def has_stray_messages(self, tenant: str, session: str) -> bool:
        """Return whether more is stored under a history's subjects than its events.

        They are counted, so a broken event behind the last one counts too.
        """
        ...

    async def list_tenants(self, session: str) -> Sequence[str]:
        """Return the tenants that have a history of this id, in order; the leader answers."""
        ...

    async def find_last_position(self, tenant: str, leaf: str) -> int:
        """Return the stream sequence of a tenant's last event with this leaf; 0 if there is none.

        The leader answers, so an acknowledged event counts.
        """
        ...

    async def read_range(
        self, tenant: str, session: str, after: ChainHead | None, upto: RecordedEvent
    ) -> Sequence[RecordedEvent]:
        """Return the events after `after` up to and including `upto`, in order, without a gap.

        Raises `Corrupt` if the history's sequence has a gap or an event cannot be decoded.
        """
        ...

    async def read_next_events(
        self, tenant: str, session: str, after: ChainHead | None, count: int
    ) -> Sequence[RecordedEvent]:
        """Return up to `count` events after `after`, in order, without a gap.

        Fewer events are returned if there are no more, or if a follower lags. Raises `Corrupt` if
        they do not continue `after`.
        """
        ...

    async def find_event(
        self, tenant: str, session: str, sequence: int, upto: RecordedEvent
    ) -> RecordedEvent:
        """Return a history's event by its sequence; `upto` is that event or a later one.

        This takes a few reads, however long the history is. Raises `Corrupt` if the event is
        missing.
        """
        ...

    async def read_events_by_leaf(
        self, tenant: str, session: str, leaf: str, upto: ChainHead
    ) -> Sequence[RecordedEvent]:
        """Return all events of a history with this leaf, up to and including `upto`, in order.

        The leader confirms that there are no more. Raises `Corrupt` if one may be missing: its
        place in the stream has no message, and the history has a gap.
        """
        ...

    async def read_raw_events_by_leaf(
        self, tenant: str, leaf: str, after: int = 0
    ) -> Sequence[RawEvent]:
        """Return the messages of a tenant's histories with this leaf, in stored order.

        They are those after a stream sequence, stray ones among them. Raises `Corrupt` if all are
        read and the server counts more of them than it has.
        """
        ...

    async def read_raw_event(self, stream_sequence: int) -> RawEvent | None:
        """Return the event of any tenant at a stream sequence from the leader; None without one."""
        ...

    async def read_events_at(
        self, tenant: str, stream_sequences: Sequence[int]
    ) -> Sequence[RecordedEvent]:
        """Return the events at these stream sequences, in the given order.

        Raises `Corrupt` if one is missing.
        """
        ...

    def stream_raw_events(
        self, tenant: str | None, after: int, *, live: bool
    ) -> AsyncGenerator[Sequence[RawEvent]]:
        """Yield everything after a stream sequence in stored order, in non-empty batches.

        Ends at the event that was last at the start, unless `live`. Raises `StreamHole` where a
        message is missing, whichever tenant's it was, after everything before it was yielded, and
        `Corrupt` if the log no longer holds the last event yielded, because it was rolled back or
        created again.
        """
        ...

    async def attach_keys(self, raws: Sequence[RawEvent]) -> Sequence[RawEvent]:
        """Return events, kept elsewhere as they are stored, with the keys of those sealed."""
        ...

    async def decode_event(self, stored: bytes, stream_sequence: int) -> RecordedEvent:
        """Return the event in stored bytes; what this process appended or watches has it already.

        Raises `Corrupt`.
        """
        ...

    def open_session_watch(
        self, tenant: str, session: str, after: int, wake: asyncio.Event
    ) -> AbstractAsyncContextManager[Watch[RecordedEvent]]:
        """Watch a history's events after a sequence: stored, then live, without gap or repeat.

        After the last event the watch raises `UnreadableEnd` if a message behind it is none.
        """
        ...

    def watch_session(
        self, tenant: str, session: str, after: int = 0
    ) -> AsyncGenerator[RecordedEvent]:
        """Yield the events of such a watch forever."""
        ...


class BlobStore(Protocol):
    """Texts by digest, each stored once per tenant."""

    async def put_blob(self, tenant: str, data: bytes) -> Digest:
        """Store bytes and return their digest; storing the same bytes again has no effect."""
        ...

    async def get_blob(self, tenant: str, digest: Digest) -> bytes:
        """Return the bytes as first stored, even if others were stored under the digest later.

        Raises `AlteredBlob` if other bytes are there, `Corrupt` if there are none or their keys are
        gone, and `KeyringMissing` for sealed ones without a keyring.
        """
        ...

    def stream_raw_blobs(self, after: int) -> AsyncGenerator[Sequence[RawEvent]]:
        """Yield the blobs of all tenants as they are stored, after a stream sequence.

        Raises `StreamHole` where one is missing, after everything before it was yielded.
        """
        ...


class TurnBlobStore(BlobStore, Protocol):
    """The same for texts of turns, which are sealed where their session is."""

    async def put_turn_blob(self, tenant: str, data: bytes, leaves: LeafSets | None) -> Digest:
        """Store bytes, sealed under these keys unless they are None, and return their digest.

        That of a sealed one is keyed. Raises `KeyringMissing` without a keyring.
        """
        ...


class MediaStore(Protocol):
    """Pictures, recordings and files by digest, each stored once per tenant, in chunks."""

    async def put_media(
        self,
        tenant: str,
        data: AsyncIterable[bytes],
        *,
        most_bytes: int,
        expected: Digest | None = None,
    ) -> StoredMedia:
        """Store a stream of bytes and return its digest; storing the same again has no effect.

        Raises `TooLarge` for more than `most_bytes`, and `Refused` if the digest is not the
        expected one; nothing is stored then. An item is found once all of it is stored.
        """
        ...

    async def put_received(self, tenant: str, received: ReceivedMedia) -> StoredMedia:
        """Store an item whose bytes have arrived and are accepted, as `put_media` does."""
        ...

    async def seal_received(
        self, tenant: str, received: ReceivedMedia, leaves: LeafSets
    ) -> tuple[Digest, ReceivedMedia]:
        """Return the keyed digest of an item of a turn, and the item as it is stored sealed.

        Raises `KeyringMissing` without a keyring.
        """
        ...

    async def seal_upload(self, tenant: str, received: ReceivedMedia) -> ReceivedMedia:
        """Return an item as it is stored before there is a turn.

        Where uploads are sealed it has a name, and is found by its digest nevertheless.
        """
        ...

    async def get_media(self, tenant: str, digest: Digest) -> bytes:
        """Return the bytes of a media item.

        Raises `AlteredMedia` if other bytes are there, and `Corrupt` if there are none.
        """
        ...

    def stream_media(self, tenant: str, digest: Digest) -> AsyncGenerator[bytes]:
        """Yield the bytes of a media item in chunks; raises as `get_media` does.

        Each chunk is checked before it is yielded, and the digest of the whole at the end.
        """
        ...

    async def find_media(self, tenant: str, digest: Digest) -> StoredMedia | None:
        """Return an item's digest and size if all of it was stored, or None."""
        ...

    def iterate_media(self, tenant: str) -> AsyncGenerator[StoredMedia]:
        """Yield every item that is stored of a tenant, in no order."""
        ...


class SnapshotStore(Protocol):
    """Folded states by session; a lost snapshot costs time but no data."""

    async def put_snapshot(
        self, tenant: str, session: str, data: bytes, interval: int | None = None
    ) -> None:
        """Store a session's latest snapshot, or one of its interval snapshots."""
        ...

    async def get_snapshot(
        self, tenant: str, session: str, interval: int | None = None
    ) -> bytes | None:
        """Return the latest snapshot or an interval snapshot, or None."""
        ...


@dataclass(frozen=True, slots=True)
class StampedTokenEvent:
    """A token event with the server time at which it was stored."""

    event: TokenEvent
    at: datetime


@dataclass(frozen=True, slots=True)
class TurnTokenEvent:
    """A token event of a turn, while its reply is generated."""

    turn: int
    event: TokenEvent


PublishedToken = tuple[str, TurnTokenEvent]
"""A session, and a token event of one of its turns."""


class TokenStream(Protocol):
    """Tokens of replies that are being generated; kept in memory for a short time."""

    async def publish_token(self, tenant: str, session: str, turn: int, event: TokenEvent) -> None:
        """Publish without waiting for an acknowledgement."""
        ...

    async def publish_and_confirm(
        self, tenant: str, session: str, turn: int, event: TokenEvent
    ) -> bool:
        """Publish and wait; return whether it was stored. Never raises for a missing stream."""
        ...

    async def read_token_events(
        self, tenant: str, session: str, turn: int
    ) -> Sequence[StampedTokenEvent]:
        """Return the stored token events of a turn in order; empty if they were lost."""
        ...

    async def read_latest_event(
        self, tenant: str, session: str, turn: int
    ) -> StampedTokenEvent | None:
        """Return the turn's last token event, never a stale one, or None."""
        ...

    async def measure_silence(self, tenant: str, session: str, turn: int) -> float | None:
        """Return seconds since the turn's last token event by the server's clock, or None."""
        ...

    def open_turn_watch(
        self, tenant: str, session: str, turn: int, wake: asyncio.Event, *, is_new: bool = False
    ) -> AbstractAsyncContextManager[Watch[TokenEvent]]:
        """Watch a turn's token events: stored, then live, without gap or repeat.

        Those of a turn that `is_new`, because this process has just submitted it, are not stored
        longer than this process has been listening.
        """
        ...

    def open_tenant_watch(
        self, tenant: str, wake: asyncio.Event
    ) -> AbstractAsyncContextManager[Watch[PublishedToken]]:
        """Watch what is published for a tenant's turns from now on; some of it may be lost."""
        ...
