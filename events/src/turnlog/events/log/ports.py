"""What the rest of the house asks of a log, and no more.

The memory log and the JetStream log both pass one contract suite. Reading never scans: a
session's last event is looked up, the rest is read by exact count.
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
    """Which log this is: a log that was lost and made anew is another one."""

    stream: str
    created: str
    """When the stream was made, by its server, RFC 3339."""


@dataclass(frozen=True, slots=True)
class Raw:
    """Stored bytes that nobody has decoded yet; bulk readers decide what to do about junk."""

    subject: str
    stream_sequence: int
    stored: bytes


class Log(Protocol):
    """Sessions and their events."""

    async def identity(self, tenant: str) -> Identity:
        """Tell which stream holds the tenant's sessions."""
        ...

    async def end(self, tenant: str) -> int:
        """Give the stream sequence of the last event in the tenant's stream; 0 where none is."""
        ...

    async def append(self, batch: Batch) -> Outcome:
        """Add a batch by compare-and-set, all or nothing.

        An ambiguous answer is resolved against the stream's leader, and the same bytes are sent
        again, for as long as the log's patience lasts.
        """
        ...

    async def last(self, tenant: str, session: str, *, leader: bool = False) -> Recorded | None:
        """Give a session's last event, or none. Only `leader` is never stale."""
        ...

    async def between(
        self, tenant: str, session: str, after: Head | None, upto: Recorded
    ) -> Sequence[Recorded]:
        """Give the events behind `after` up to and including `upto`, in order, without a gap.

        Raises `Corrupt` when the session's own sequence has a hole or an event is junk.
        """
        ...

    async def onward(
        self, tenant: str, session: str, after: Head | None, count: int
    ) -> Sequence[Recorded]:
        """Give the next events behind `after`, in order, without a gap.

        Fewer than `count` come where there are no more yet, or where a follower lags. Raises
        `Corrupt` when they do not continue `after`.
        """
        ...

    async def find(self, tenant: str, session: str, sequence: int, upto: Recorded) -> Recorded:
        """Give a session's event by its sequence, `upto` or one before; `Corrupt` where it is gone.

        Costs a few reads, however long the session is.
        """
        ...

    async def all_under(
        self, tenant: str, session: str, leaf: str, upto: Head
    ) -> Sequence[Recorded]:
        """Give all of a session's events under a leaf up to an event, in order.

        No link shows that none is missing, so the leader has the last word on where they end.
        """
        ...

    async def at(self, tenant: str, stream_sequences: Sequence[int]) -> Sequence[Recorded]:
        """Give the events at these places, in the order asked; `Corrupt` where one is gone."""
        ...

    def follow(
        self, tenant: str | None, after: int, *, live: bool
    ) -> AsyncGenerator[Sequence[Raw]]:
        """Give everything behind a stream sequence in stored order, in bulk.

        Ends at what was last when it began, unless `live`. Never yields an empty sequence. Raises
        `Corrupt` when the log no longer holds what was given last: it was rolled back or made anew.
        """
        ...

    def watch(self, tenant: str, session: str, after: int = 0) -> AsyncGenerator[Recorded]:
        """Give a session's events behind a sequence, past then live, without gap or repeat."""
        ...


class Blobs(Protocol):
    """Texts by digest, stored once a tenant."""

    async def put(self, tenant: str, data: bytes) -> Digest:
        """Store bytes; storing them again changes nothing."""
        ...

    async def get(self, tenant: str, digest: Digest) -> bytes:
        """Give the bytes; raises `Corrupt` when they are gone or no longer match."""
        ...


class Snapshots(Protocol):
    """Folded states, by session. Losing one costs time, never truth."""

    async def put(
        self, tenant: str, session: str, data: bytes, waypoint: int | None = None
    ) -> None:
        """Keep the latest snapshot of a session, or that of one of its waypoints."""
        ...

    async def get(self, tenant: str, session: str, waypoint: int | None = None) -> bytes | None:
        """Give the latest snapshot, or that of a waypoint, or none."""
        ...


@dataclass(frozen=True, slots=True)
class Stamped:
    """A token event with the server's clock reading at which it was stored."""

    event: TokenEvent
    at: datetime


class TokenStream(Protocol):
    """Tokens in flight: kept in memory for a short while."""

    async def publish(self, tenant: str, session: str, turn: int, event: TokenEvent) -> None:
        """Send without waiting for the store."""
        ...

    async def close(self, tenant: str, session: str, turn: int, event: TokenEvent) -> bool:
        """Send and wait; says whether it was stored. Never raises for an absent stream."""
        ...

    async def recorded(self, tenant: str, session: str, turn: int) -> Sequence[Stamped]:
        """Give what is still held of a turn, in order; empty when it was lost."""
        ...

    async def latest(self, tenant: str, session: str, turn: int) -> Stamped | None:
        """Give the turn's last token event, never a stale one; none where there is none."""
        ...

    async def silence(self, tenant: str, session: str, turn: int) -> float | None:
        """Seconds since the turn's last token event, by the server's clock; none without one."""
        ...

    def watch(
        self, tenant: str, session: str, turn: int
    ) -> AbstractAsyncContextManager[AsyncGenerator[TokenEvent]]:
        """Subscribe on entering, then give what is held and what comes, without gap or repeat."""
        ...
