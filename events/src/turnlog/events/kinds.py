"""All kinds of event there are, and how their names are spelt.

An event has one name, `turn-submitted`, used in code, filters and docs; its type on the wire is
`turnlog.turn-submitted.v1`. What a reader does not know it meets as `Unknown`, so that an old
release can read a new log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, get_args

from pydantic import JsonValue

from turnlog.events.call import AttemptEnded, AttemptStarted, CallCompleted, ContextAssembled
from turnlog.events.memory import (
    HistorySummarised,
    MemoryPurged,
    SummaryBegun,
    SummaryFailed,
    SummaryUndone,
)
from turnlog.events.phase import PhaseEntered
from turnlog.events.plan import PlanMade, StepPlanned
from turnlog.events.prompt import PromptsSnapshotted
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.reference import ReferenceUpdated, TurnResolved
from turnlog.events.session import (
    BlueprintMoved,
    ProfileSwitched,
    SessionClosed,
    SessionOpened,
)
from turnlog.events.tool import (
    SchemasRequested,
    ToolCalled,
    ToolReturned,
    ToolsSnapshotted,
    ToolStarted,
)
from turnlog.events.turn import (
    ChoiceRecorded,
    TurnCancelled,
    TurnCompleted,
    TurnDisplayed,
    TurnExcluded,
    TurnFailed,
    TurnQueued,
    TurnReleased,
    TurnRestored,
    TurnSubmitted,
)


@dataclass(frozen=True, slots=True)
class Unknown:
    """An event of a type this release does not know; kept, counted, never interpreted."""

    type: str
    data: dict[str, JsonValue]


KnownEvent = (
    SessionOpened
    | BlueprintMoved
    | ProfileSwitched
    | SessionClosed
    | PromptsSnapshotted
    | ToolsSnapshotted
    | SchemasRequested
    | TurnSubmitted
    | TurnQueued
    | TurnReleased
    | ChoiceRecorded
    | TurnResolved
    | TurnCompleted
    | TurnFailed
    | TurnCancelled
    | TurnExcluded
    | TurnRestored
    | TurnDisplayed
    | AttemptStarted
    | ContextAssembled
    | AttemptEnded
    | CallCompleted
    | PlanMade
    | StepPlanned
    | ToolCalled
    | ToolStarted
    | ToolReturned
    | ReplyRedacted
    | PhaseEntered
    | ReferenceUpdated
    | SummaryBegun
    | HistorySummarised
    | SummaryFailed
    | SummaryUndone
    | MemoryPurged
)
"""What this release writes and understands."""

Event = KnownEvent | Unknown
"""What this release may meet on a log."""

KINDS: Final[dict[str, type[KnownEvent]]] = {kind.type: kind for kind in get_args(KnownEvent)}
"""Type on the wire to class."""


def name_of(wire_type: str) -> str:
    """Spell a wire type as a name: `turnlog.turn-submitted.v1` is `turn-submitted`."""
    return wire_type.removeprefix("turnlog.").rpartition(".v")[0] or wire_type


NAMES: Final = tuple(name_of(wire_type) for wire_type in KINDS)
"""Every name this release writes, in the order of the families."""
