"""The outcomes of an append; they are values, because each of them is an expected answer."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.envelope import Recorded


@dataclass(frozen=True, slots=True)
class Appended:
    """The batch was stored by this append."""

    events: tuple[Recorded, ...]


@dataclass(frozen=True, slots=True)
class AlreadyThere:
    """An earlier try had already stored the batch; `events` is as stored."""

    events: tuple[Recorded, ...]


@dataclass(frozen=True, slots=True)
class Conflicted:
    """Another event is stored in the batch's place; the batch is certainly not stored."""

    actual: int
    """The session's current sequence."""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The log gave no certain answer; if `ambiguous`, the batch may still be stored."""

    detail: str
    ambiguous: bool


Outcome = Appended | AlreadyThere | Conflicted | Unreachable
