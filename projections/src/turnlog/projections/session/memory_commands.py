"""Commands on what a session's windows remember."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.call import Fault
from turnlog.events.memory import SummaryBegun
from turnlog.events.turn import Finish
from turnlog.projections.session.attempting import Attempt, Spent


@dataclass(frozen=True, slots=True)
class BeginSummary:
    """Have older turns summed up before the turn goes on."""

    attempt: Attempt
    begun: SummaryBegun


@dataclass(frozen=True, slots=True)
class RecordSummary:
    """The call that sums up has its answer, and the turn goes on."""

    attempt: Attempt
    text: str
    finish: Finish
    spent: Spent
    model: str
    """As litellm was told it."""


@dataclass(frozen=True, slots=True)
class GiveUpSummary:
    """The call that sums up has none, and the turn goes on without."""

    attempt: Attempt
    spent: Spent
    fault: Fault


@dataclass(frozen=True, slots=True)
class UndoSummary:
    """Let a summary stand no more."""

    sequence: int
    """That of the event that holds it."""


@dataclass(frozen=True, slots=True)
class PurgeMemory:
    """Leave all turns so far out of windows."""


MemoryCommand = BeginSummary | RecordSummary | GiveUpSummary | UndoSummary | PurgeMemory
