"""The ports of the event store: logs of sessions and libraries, blobs, snapshots and tokens.

The memory implementations and the JetStream ones pass the same contract tests. Reads never scan: a
session's last event is looked up, and the rest is read by exact count.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from turnlog.events.codec import Batch
from turnlog.events.content import Digest
from turnlog.events.envelope import Head, Recorded
from turnlog.events.log.outcomes import Outcome
from turnlog.events.tokens import TokenEvent


@dataclass(frozen=True, slots=True)
class Identity:
    """Identifies a log; a log that was lost and created again has another identity."""

    stream: str
    created: str
    """When the server created the stream, RFC 3339."""


@dataclass(frozen=True, slots=True)
class Raw:
    """Stored bytes that are not decoded yet; bulk readers decide how to treat invalid ones."""

    subject: str
    stream_sequence: int
    stored: bytes


class Log(Protocol):
    """The events of sessions."""

    async def identity(self, tenant: str) -> Identity:
        """Return the identity of the stream that holds the tenant's sessions."""
        ...

    async def end(self, tenant: str) -> int:
        """Return the stream sequence of the tenant's last event, or 0 if there is none."""
        ...

    async def append(self, batch: Batch) -> Outcome:
        """Append a batch by compare-and-set, all or nothing.

        An ambiguous answer is resolved at the stream's leader, and the same bytes are sent again
        until the log's `patience` is exhausted.
        """
        ...

    async def last(self, tenant: str, session: str, *, leader: bool = False) -> Recorded | None:
        """Return a session's last event, or None; only with `leader` is it never stale."""
        ...

    async def between(
        self, tenant: str, session: str, after: Head | None, upto: Recorded
    ) -> Sequence[Recorded]:
        """Return the events after `after` up to and including `upto`, in order, without a gap.

        Raises `Corrupt` if the session's sequence has a gap or an event cannot be decoded.
        """
        ...

    async def onward(
        self, tenant: str, session: str, after: Head | None, count: int
    ) -> Sequence[Recorded]:
        """Return up to `count` events after `after`, in order, without a gap.

        Fewer events are returned if there are no more, or if a follower lags. Raises `Corrupt` if
        they do not continue `after`.
        """
        ...

    async def find(self, tenant: str, session: str, sequence: int, upto: Recorded) -> Recorded:
        """Return a session's event by its sequence; `upto` is that event or a later one.

        This takes a few reads, however long the session is. Raises `Corrupt` if the event is
        missing.
        """
        ...

    async def all_under(
        self, tenant: str, session: str, leaf: str, upto: Head
    ) -> Sequence[Recorded]:
        """Return all events of a session with this leaf, up to and including `upto`, in order.

        The hash chain cannot show a missing event here, so the leader confirms that there are no
        more.
        """
        ...

    async def at(self, tenant: str, stream_sequences: Sequence[int]) -> Sequence[Recorded]:
        """Return the events at these stream sequences, in the given order.

        Raises `Corrupt` if one is missing.
        """
        ...

    def follow(
        self, tenant: str | None, after: int, *, live: bool
    ) -> AsyncGenerator[Sequence[Raw]]:
        """Yield everything after a stream sequence in stored order, in non-empty batches.

        Ends at the event that was last at the start, unless `live`. Raises `Corrupt` if the log no
        longer holds the last event yielded, because it was rolled back or created again.
        """
        ...

    def watch(self, tenant: str, session: str, after: int = 0) -> AsyncGenerator[Recorded]:
        """Yield a session's events after a sequence, stored then live, without gap or repeat."""
        ...


class Blobs(Protocol):
    """Texts by digest, each stored once per tenant."""

    async def put(self, tenant: str, data: bytes) -> Digest:
        """Store bytes and return their digest; storing the same bytes again has no effect."""
        ...

    async def get(self, tenant: str, digest: Digest) -> bytes:
        """Return the bytes; raises `Corrupt` if they are missing or do not match the digest."""
        ...


class Snapshots(Protocol):
    """Folded states by session; a lost snapshot costs time but no data."""

    async def put(
        self, tenant: str, session: str, data: bytes, waypoint: int | None = None
    ) -> None:
        """Store a session's latest snapshot, or one of its interval snapshots."""
        ...

    async def get(self, tenant: str, session: str, waypoint: int | None = None) -> bytes | None:
        """Return the latest snapshot or an interval snapshot, or None."""
        ...


@dataclass(frozen=True, slots=True)
class Stamped:
    """A token event with the server time at which it was stored."""

    event: TokenEvent
    at: datetime


class TokenStream(Protocol):
    """Tokens of replies that are being generated; kept in memory for a short time."""

    async def publish(self, tenant: str, session: str, turn: int, event: TokenEvent) -> None:
        """Publish without waiting for an acknowledgement."""
        ...

    async def close(self, tenant: str, session: str, turn: int, event: TokenEvent) -> bool:
        """Publish and wait; return whether it was stored. Never raises for a missing stream."""
        ...

    async def recorded(self, tenant: str, session: str, turn: int) -> Sequence[Stamped]:
        """Return the stored token events of a turn in order; empty if they were lost."""
        ...

    async def latest(self, tenant: str, session: str, turn: int) -> Stamped | None:
        """Return the turn's last token event, never a stale one, or None."""
        ...

    async def silence(self, tenant: str, session: str, turn: int) -> float | None:
        """Return seconds since the turn's last token event by the server's clock, or None."""
        ...

    def watch(
        self, tenant: str, session: str, turn: int
    ) -> AbstractAsyncContextManager[AsyncGenerator[TokenEvent]]:
        """Subscribe on entering; yields stored, then live events, without gap or repeat."""
        ...
