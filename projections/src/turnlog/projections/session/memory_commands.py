from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.call import AttemptFault
from turnlog.events.memory import SummaryBegun
from turnlog.events.turn import FinishReason
from turnlog.projections.session.attempting import AttemptRef, AttemptUsage


@dataclass(frozen=True, slots=True)
class BeginSummary:
    """Have older turns summarised before the turn continues."""

    attempt: AttemptRef
    begun: SummaryBegun


@dataclass(frozen=True, slots=True)
class RecordSummary:
    """Record the answer of the summary call; the turn continues."""

    attempt: AttemptRef
    text: str
    finish: FinishReason
    spent: AttemptUsage
    model: str
    """Model name as it was passed to litellm."""


@dataclass(frozen=True, slots=True)
class GiveUpSummary:
    """Record that the summary call failed; the turn continues without a summary."""

    attempt: AttemptRef
    spent: AttemptUsage
    fault: AttemptFault


@dataclass(frozen=True, slots=True)
class UndoSummary:
    """Take a summary out of force."""

    sequence: int
    """Sequence of the event that holds it."""


@dataclass(frozen=True, slots=True)
class PurgeMemory:
    """Hide all turns so far from later windows."""


MemoryCommand = BeginSummary | RecordSummary | GiveUpSummary | UndoSummary | PurgeMemory
