"""The hash chain: each event of a session continues the stored bytes of the one before it.

It is checked over stored bytes in stream order. Memory is one small record per session, so a log of
any length can be checked. A break is reported at the first event that can be at fault; later events
are checked against the bytes actually before them, so one break is reported once. Bytes that the
codec refuses count as the event that is due, unless that event follows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from turnlog.events.codec import decode_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.log.ports import RawEvent


@dataclass(frozen=True, slots=True)
class UndecodableEvent:
    """Stored bytes that the codec refuses, with the reason."""

    raw: RawEvent
    detail: str
    """What is wrong with the bytes: `data.text: Field required`."""


def decode_events(stored: Iterable[RawEvent]) -> tuple[tuple[RecordedEvent, ...], tuple[UndecodableEvent, ...]]:
    """Decode stored bytes; return the events and, apart from them, what cannot be decoded."""
    events: list[RecordedEvent] = []
    unread: list[UndecodableEvent] = []
    for raw in stored:
        try:
            events.append(decode_event(raw.stored, raw.stream_sequence))
        except Corrupt as error:
            unread.append(UndecodableEvent(raw, error.detail))
    return tuple(events), tuple(unread)


def describe_undecodable(raw: RawEvent) -> str:
    """Return why bytes without a readable chain header cannot be decoded."""
    _, unread = decode_events((raw,))
    return unread[0].detail if unread else "they do not tell what they continue"
