"""The events of a drawn turn as they would continue a session.

They are the recorded ones with another session, turn, sequence and position. What refers to an
event of the same turn is changed with it. Figures of providers are left out: they are about the
prompt that was sent then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from turnlog.events.envelope import EventHeader, RecordedEvent
from turnlog.events.event_model import EventModel
from turnlog.events.model.attempt_figures import TokenUsage
from turnlog.events.model.call_events import AttemptEnded, CallCompleted
from turnlog.events.model.prompt_events import PromptsSnapshotted
from turnlog.events.model.tool_events import ToolListChanged, ToolsSnapshotted
from turnlog.events.model.turn_events import TurnQueued, TurnReleased, TurnSubmitted
from turnlog.events.registry import UnknownEvent
from turnlog.projections.forecast.input_trends import LengthTrend, stretch_inputs
from turnlog.projections.forecast.turn_draws import DrawnTurn
from turnlog.projections.session.state import SessionState

_UNKNOWN_USAGE: Final = TokenUsage(known="unknown")

_CALL_FIELDS: Final = ("call", "supersedes", "query_call")
"""Fields with the id of a call of the turn."""


def build_drawn_events(state: SessionState, drawn: DrawnTurn, at: str) -> tuple[RecordedEvent, ...]:
    """Return the events of a drawn turn as the next of a session, all of them at one time."""
    sample = drawn.sample
    included = [each for each in sample.events if not _is_left_out(state, each)]
    first = state.head.sequence + 1
    places = {each.sequence: first + place for place, each in enumerate(included)}
    shift = _TurnShift(
        session=state.session,
        tenant=state.tenant,
        before=sample.turn,
        turn=state.submitted + 1,
        sequences=places,
        at=at,
        trends=drawn.trends,
    )
    position = state.head.stream_sequence + 1
    return tuple(shift.move_event(each, position + place) for place, each in enumerate(included))


def _is_left_out(state: SessionState, recorded: RecordedEvent) -> bool:
    """Return whether a session has no use for an event, because it has pinned its own."""
    match recorded.event:
        case TurnReleased() | ToolListChanged():
            return True
        case PromptsSnapshotted():
            return bool(state.prompts)
        case ToolsSnapshotted(profile=profile):
            return profile in state.tools
        case _:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _TurnShift:
    session: str
    tenant: str
    before: int
    """The number of the turn as it was recorded."""
    turn: int
    sequences: Mapping[int, int]
    """The sequence of each recorded event to that of the event it becomes."""
    at: str
    trends: Mapping[str, LengthTrend]

    def move_event(self, recorded: RecordedEvent, position: int) -> RecordedEvent:
        sequence = self.sequences[recorded.sequence]
        envelope: EventHeader = recorded.envelope.model_copy(
            update={
                "id": f"drawn-{sequence}",
                "subject": self.session,
                "tenant": self.tenant,
                "time": self.at,
                "sequence": sequence,
                "commandkey": None,
                "commandhash": None,
            }
        )
        event = recorded.event
        if isinstance(event, TurnQueued):
            event = TurnSubmitted.model_validate(dict(event))
        if isinstance(event, UnknownEvent):
            return RecordedEvent(envelope, event, position, b"")
        changes = self._find_changes(event)
        return RecordedEvent(envelope, event.model_copy(update=changes), position, b"")

    def _find_changes(self, event: EventModel) -> dict[str, object]:
        fields = type(event).model_fields
        changes: dict[str, object] = {
            name: self._rename_call(getattr(event, name))
            for name in _CALL_FIELDS
            if name in fields and getattr(event, name)
        }
        if getattr(event, "turn", None) == self.before:
            changes["turn"] = self.turn
        if kept := getattr(event, "kept_results", ()):
            changes["kept_results"] = tuple(filter(None, map(self.sequences.get, kept)))
        if given := getattr(event, "given", None):
            changes["given"] = self.sequences.get(given)
        match event:
            case TurnSubmitted(inputs=inputs) if self.trends:
                changes["inputs"] = stretch_inputs(inputs, self.trends, self.before, self.turn)
            case AttemptEnded():
                changes |= {"usage": _UNKNOWN_USAGE, "fault": None}
            case CallCompleted():
                changes["spent"] = None
            case _:
                pass
        return changes

    def _rename_call(self, call: str) -> str:
        turn, dot, number = call.partition(".")
        return f"{self.turn}.{number}" if dot and turn == str(self.before) else call
