"""Places in the log: where a text stands, and what can be said of it without reading it."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.content import Digest


@dataclass(frozen=True, slots=True)
class Said:
    """Where a text stands in the log, and what can be said of it without reading it."""

    sequence: int
    """The event's sequence."""
    place: int
    """Where that event lies in the stream."""
    field: str
    """The event's field that holds the text."""
    digest: Digest
    """Digest of the text."""
    characters: int
    """Length in code points."""
    at: str
    """When it was recorded, RFC 3339."""

    def __hash__(self) -> int:
        # A window looks up hundreds of these, and few share a place: an event says one thing mostly
        return self.place


@dataclass(frozen=True, slots=True)
class Brought:
    """Where the inputs of a turn stand in the log."""

    sequence: int
    """The event's sequence."""
    place: int
    """Where that event lies in the stream."""
