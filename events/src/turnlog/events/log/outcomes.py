"""What can come of an append. Values, since each is an answer, not an accident."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.envelope import Recorded


@dataclass(frozen=True, slots=True)
class Appended:
    """The batch is on the log, by this very append."""

    events: tuple[Recorded, ...]


@dataclass(frozen=True, slots=True)
class AlreadyThere:
    """The batch was on the log before: an earlier try of it had arrived. `events` is as stored."""

    events: tuple[Recorded, ...]


@dataclass(frozen=True, slots=True)
class Conflicted:
    """Proven: another event stands where the batch should have gone, and the batch is not there."""

    actual: int
    """The session's sequence as it is now."""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The log gave no certain answer. When `ambiguous`, the batch may yet be there."""

    detail: str
    ambiguous: bool


Outcome = Appended | AlreadyThere | Conflicted | Unreachable
