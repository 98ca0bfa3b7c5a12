"""The end of a history as far as it can be read.

Any client of NATS may publish under a history's subjects. A message that is no event of it, or does
not continue the one before, is passed over: readers get the events before it. Nothing can follow
it, because an append names the last message under the subjects, and a chain that continued such
bytes would take them for events.

The last event before it is found by bisection, in some twenty reads however long the history is.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.codec import decode_event
from turnlog.events.content import compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, UnreadableEnd
from turnlog.events.jetstream.direct_get import (
    StoredMessage,
    get_last_message,
    get_message,
    get_next_message,
)
from turnlog.events.jetstream.nats_connection import NatsConnection


@dataclass(frozen=True, slots=True)
class HistoryEnd:
    """The last event of a history, and what is stored behind it."""

    last: RecordedEvent | None
    """None if the history has no event that can be read."""
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
        event = self._decode_own_event(newest)
        if isinstance(event, RecordedEvent):
            if event.stream_sequence == known or await self._is_next(event):
                return HistoryEnd(event)
            event = _build_link_fault(newest)
        return await self._find_readable_end(newest, event)

    def _decode_own_event(self, message: StoredMessage) -> RecordedEvent | Corrupt:
        """Return the event in a message, or why it is none of this history."""
        try:
            event = decode_event(message.payload, message.stream_sequence)
        except Corrupt as fault:
            return fault
        if [event.tenant, event.session] == self.subjects.split(".")[1:3]:
            return event
        return Corrupt(f"stream sequence {message.stream_sequence}", "it is of another history")

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
        following = await self._get_next(place + 1)
        return following is None or following.stream_sequence == event.stream_sequence

    async def _does_continue(self, event: RecordedEvent, place: int) -> bool:
        if not 0 < place < event.stream_sequence:
            return False
        before = await get_message(self.connection, self.stream, place, leader=self.leader)
        return before is None or compute_digest(before.payload) == event.envelope.prevhash

    async def _get_next(self, place: int) -> StoredMessage | None:
        return await get_next_message(
            self.connection, self.stream, self.subjects, place, leader=self.leader
        )

    async def _find_readable_end(self, newest: StoredMessage, fault: Corrupt) -> HistoryEnd:
        """Return the last event before a message that is none; all behind it count as none."""
        last: RecordedEvent | None = None
        low, high, first = 1, newest.stream_sequence, newest
        while low < high:
            middle = (low + high) // 2
            found = await self._get_next(middle)
            event = self._decode_own_event(found) if found else None
            if isinstance(event, RecordedEvent) and await self._is_next(event):
                last, low = event, event.stream_sequence + 1
                continue
            high = middle
            if found is not None and found.stream_sequence < first.stream_sequence:
                first = found
                fault = event if isinstance(event, Corrupt) else _build_link_fault(found)
        return HistoryEnd(last, self._build_unreadable_end(last, first, fault))

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


def _build_link_fault(message: StoredMessage) -> Corrupt:
    place = f"stream sequence {message.stream_sequence}"
    return Corrupt(place, "it does not continue the event before it")
