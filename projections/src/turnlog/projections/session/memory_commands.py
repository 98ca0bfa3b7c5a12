from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.call import Fault
from turnlog.events.memory import SummaryBegun
from turnlog.events.turn import Finish
from turnlog.projections.session.attempting import Attempt, Spent


@dataclass(frozen=True, slots=True)
class BeginSummary:
    """Have older turns summarised before the turn continues."""

    attempt: Attempt
    begun: SummaryBegun


@dataclass(frozen=True, slots=True)
class RecordSummary:
    """Record the answer of the summary call; the turn continues."""

    attempt: Attempt
    text: str
    finish: Finish
    spent: Spent
    model: str
    """Model name as it was passed to litellm."""


@dataclass(frozen=True, slots=True)
class GiveUpSummary:
    """Record that the summary call failed; the turn continues without a summary."""

    attempt: Attempt
    spent: Spent
    fault: Fault


@dataclass(frozen=True, slots=True)
class UndoSummary:
    """Take a summary out of force."""

    sequence: int
    """Sequence of the event that holds it."""


@dataclass(frozen=True, slots=True)
class PurgeMemory:
    """Hide all turns so far from later windows."""


MemoryCommand = BeginSummary | RecordSummary | GiveUpSummary | UndoSummary | PurgeMemory
