"""The hash chain: each event of a session continues the stored bytes of the one before it.

It is checked over stored bytes in stream order. Memory is one small record per session, so a log of
any length can be checked. A break is reported at the first event that can be at fault; later events
are checked against the bytes actually before them, so one break is reported once. Bytes that the
codec refuses count as the event that is due, unless that event follows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from turnlog.events.codec import read
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt
from turnlog.events.log.ports import Raw


@dataclass(frozen=True, slots=True)
class Unread:
    """Stored bytes that the codec refuses, with the reason."""

    raw: Raw
    why: str
    """What is wrong with the bytes: `data.text: Field required`."""


def decoded(stored: Iterable[Raw]) -> tuple[tuple[Recorded, ...], tuple[Unread, ...]]:
    """Decode stored bytes; return the events and, apart from them, what cannot be decoded."""
    events: list[Recorded] = []
    unread: list[Unread] = []
    for raw in stored:
        try:
            events.append(read(raw.stored, raw.stream_sequence))
        except Corrupt as error:
            unread.append(Unread(raw, error.detail))
    return tuple(events), tuple(unread)


def why_unread(raw: Raw) -> str:
    """Return why bytes without a readable chain header cannot be decoded."""
    _, unread = decoded((raw,))
    return unread[0].why if unread else "they do not tell what they continue"
