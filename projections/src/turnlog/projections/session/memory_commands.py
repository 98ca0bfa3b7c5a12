"""Commands on what a session's windows remember."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.memory import SummaryBegun
from turnlog.projections.session.attempting import Attempt


@dataclass(frozen=True, slots=True)
class BeginSummary:
    """Have older turns summed up before the turn goes on."""

    attempt: Attempt
    begun: SummaryBegun


@dataclass(frozen=True, slots=True)
class UndoSummary:
    """Let a summary stand no more."""

    sequence: int
    """That of the event that holds it."""


@dataclass(frozen=True, slots=True)
class PurgeMemory:
    """Leave all turns so far out of windows."""
