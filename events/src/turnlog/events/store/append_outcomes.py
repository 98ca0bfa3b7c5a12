"""The outcomes of an append; they are values, because each of them is an expected answer."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.envelope import RecordedEvent


@dataclass(frozen=True, slots=True)
class BatchAppended:
    """The batch was stored by this append."""

    events: tuple[RecordedEvent, ...]


@dataclass(frozen=True, slots=True)
class BatchAlreadyStored:
    """An earlier try had already stored the batch; `events` is as stored."""

    events: tuple[RecordedEvent, ...]


@dataclass(frozen=True, slots=True)
class BatchConflict:
    """Another event is stored in the batch's place; the batch is certainly not stored."""

    actual: int
    """The session's current sequence."""


@dataclass(frozen=True, slots=True)
class LogUnreachable:
    """The log gave no certain answer; if `ambiguous`, the batch may still be stored."""

    detail: str
    ambiguous: bool


AppendOutcome = BatchAppended | BatchAlreadyStored | BatchConflict | LogUnreachable
