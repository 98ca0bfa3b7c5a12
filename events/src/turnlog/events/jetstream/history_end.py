"""The end of a history as far as it can be read.

Any client of NATS may publish under a history's subjects. A stray message is passed over, and
events go on behind it. An event that cannot be decoded, or does not continue the one before, ends
the history: readers get the events before it, and nothing can follow it, because a chain that
continued such bytes would take them for events.

The last event before it is found by bisection, in some twenty reads however long the history is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.events.content import compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, UnreadableEnd
from turnlog.events.jetstream.direct_get import (
    StoredMessage,
    get_consecutive_messages,
    get_last_message,
    get_message,
    get_next_message,
)
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.stray_messages import decode_unless_stray, is_stray

STRAY_PAGE_SIZE: Final = 100
"""Messages read at once where stray ones are."""


@dataclass(frozen=True, slots=True)
class HistoryEnd:
    """The last event of a history, and what is stored behind it."""

    last: RecordedEvent | None
    """None if the history has no event that can be read."""
    newest: int
    """Stream sequence of the last message under the subjects: that event, or a stray message."""
    unreadable: UnreadableEnd | None = None
    """Why nothing can follow the last event, if a message behind it is no event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryReader:
    """Reads the messages under the subjects of one history."""

    connection: NatsConnection
    stream: str
    subjects: str
    leader: bool

    async def read_end(self, known: int = 0) -> HistoryEnd | None:
        """Return the end of the history, or None if nothing is stored under its subjects.

        `known` is the stream sequence of an end that was found before.
        """
        newest = await get_last_message(
            self.connection, self.stream, self.subjects, leader=self.leader
        )
        if newest is None:
            return None
        place = newest.stream_sequence
        latest = await self._find_latest(newest)
        if latest is None:
            return HistoryEnd(None, place)
        event = _decode_message(latest)
        if isinstance(event, RecordedEvent):
            if event.stream_sequence == known or await self._is_next(event):
                return HistoryEnd(event, place)
            event = _build_link_fault(latest)
        return await self._find_readable_end(latest, event, place)

    async def _find_latest(self, newest: StoredMessage) -> StoredMessage | None:
        """Return the last message that is not a stray one, or None if all are.

        It looks back in growing steps; each stray message on the way is read once.
        """
        if not is_stray(newest.subject, newest.payload):
            return newest
        end, step = newest.stream_sequence, 1
        while end > 1:
            start = max(1, end - step)
            found: StoredMessage | None = None
            async for message in self._iterate_messages(start, end):
                if not is_stray(message.subject, message.payload):
                    found = message
            if found is not None:
                return found
            end, step = start, step * 2
        return None

    async def _iterate_messages(self, start: int, end: int) -> AsyncGenerator[StoredMessage]:
        """Yield the messages from a stream sequence on, up to but not including another."""
        while start < end:
            page: Sequence[StoredMessage] = await get_consecutive_messages(
                connection=self.connection,
                stream=self.stream,
                subjects=self.subjects,
                start=start,
                count=STRAY_PAGE_SIZE,
            )
            if not page:
                # A follower may lag, or the first message is lost.
                following = await self._get_next_message(start)
                if following is None:
                    return
                page = (following,)
            for message in page:
                if message.stream_sequence >= end:
                    return
                yield message
            start = page[-1].stream_sequence + 1

    async def _is_next(self, event: RecordedEvent) -> bool:
        """Return whether an event is the next one after that which it continues.

        A lost event before it is a hole of the stream, which whoever reads there reports.
        """
        place = event.envelope.prevstreamseq or event.stream_sequence - 1
        if event.sequence == 1:
            place = 0
        elif not await self._does_continue(event, place):
            return False
        if place == event.stream_sequence - 1:
            return True
        following = await self.find_next(place + 1)
        return following is None or following.stream_sequence == event.stream_sequence

    async def _does_continue(self, event: RecordedEvent, place: int) -> bool:
        if not 0 < place < event.stream_sequence:
            return False
        before = await get_message(self.connection, self.stream, place, leader=self.leader)
        return before is None or compute_digest(before.payload) == event.envelope.prevhash

    async def find_next(self, place: int) -> StoredMessage | None:
        """Return the first message at or after a stream sequence that is not a stray one."""
        following = await self._get_next_message(place)
        while following is not None and is_stray(following.subject, following.payload):
            following = await self._get_next_message(following.stream_sequence + 1)
        return following

    async def _get_next_message(self, place: int) -> StoredMessage | None:
        return await get_next_message(
            self.connection, self.stream, self.subjects, place, leader=self.leader
        )

    async def _find_readable_end(
        self, newest: StoredMessage, fault: Corrupt, place: int
    ) -> HistoryEnd:
        """Return the last event before a message that is none; all behind it count as none."""
        last: RecordedEvent | None = None
        low, high, first = 1, newest.stream_sequence, newest
        while low < high:
            middle = (low + high) // 2
            found = await self.find_next(middle)
            event = _decode_message(found) if found else None
            if isinstance(event, RecordedEvent) and await self._is_next(event):
                last, low = event, event.stream_sequence + 1
                continue
            high = middle
            if found is not None and found.stream_sequence < first.stream_sequence:
                first = found
                fault = event if isinstance(event, Corrupt) else _build_link_fault(found)
        return HistoryEnd(last, place, self._build_unreadable_end(last, first, fault))

    def _build_unreadable_end(
        self, last: RecordedEvent | None, first: StoredMessage, fault: Corrupt
    ) -> UnreadableEnd:
        kind, _, history = self.subjects.split(".")[:3]
        return UnreadableEnd(
            history=f"{kind} {history}",
            sequence=last.sequence if last else 0,
            position=first.stream_sequence,
            reason=fault.detail,
        )


def _decode_message(message: StoredMessage) -> RecordedEvent | Corrupt:
    """Return the event in a message that is not a stray one, or why it cannot be decoded."""
    place = f"stream sequence {message.stream_sequence}"
    try:
        event = decode_unless_stray(message.subject, message.payload, message.stream_sequence)
    except Corrupt as fault:
        return fault
    return event or Corrupt(place, "it names another session where it is decoded")


def _build_link_fault(message: StoredMessage) -> Corrupt:
    place = f"stream sequence {message.stream_sequence}"
    return Corrupt(place, "it does not continue the event before it")
