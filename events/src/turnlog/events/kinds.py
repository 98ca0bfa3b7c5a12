"""The registry of event types: names, classes, and upcasters for older versions.

An event has one name, such as `turn-submitted`, used in code, filters and docs. Its type on the
wire is `turnlog.turn-submitted.v1`. A reader decodes an unregistered type as `UnknownEvent`, so an
old release can read a new log.

A new meaning of an event is a new version with an upcaster. The tests decode golden bytes of every
released version. There is one release so far, so there are no upcasters.
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
class UnknownEvent:
    """An event of a type this release does not know; stored and counted, not interpreted."""

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
"""The session events that this release writes and reads."""

Event = KnownEvent | UnknownEvent
"""Any event that this release can find on a log."""

EVENT_TYPES: Final[dict[str, type[KnownEvent]]] = {kind.type: kind for kind in get_args(KnownEvent)}
"""Event class by wire type."""


def format_event_name(wire_type: str) -> str:
    """Return the event name of a wire type: `turnlog.turn-submitted.v1` is `turn-submitted`."""
    return wire_type.removeprefix("turnlog.").rpartition(".v")[0] or wire_type


EVENT_NAMES: Final = tuple(format_event_name(wire_type) for wire_type in EVENT_TYPES)
"""Every event name that this release writes, grouped by family."""
