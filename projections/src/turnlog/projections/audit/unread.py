"""Unread: stored bytes that no release can have written, and what stands in the way of reading.

They have a place in their session all the same, where they tell it or not: whatever is checked
goes on behind them, and says of what it cannot check that it is for them.
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
    """An event that cannot be read."""

    raw: Raw
    why: str
    """What is wrong with its bytes: `data.text: Field required`."""


def decoded(stored: Iterable[Raw]) -> tuple[tuple[Recorded, ...], tuple[Unread, ...]]:
    """Decode stored bytes, and tell those apart that cannot be."""
    events: list[Recorded] = []
    unread: list[Unread] = []
    for raw in stored:
        try:
            events.append(read(raw.stored, raw.stream_sequence))
        except Corrupt as error:
            unread.append(Unread(raw, error.detail))
    return tuple(events), tuple(unread)


def why_unread(raw: Raw) -> str:
    """Say what stands in the way of reading bytes that do not tell what they continue."""
    _, unread = decoded((raw,))
    return unread[0].why if unread else "they do not tell what they continue"
