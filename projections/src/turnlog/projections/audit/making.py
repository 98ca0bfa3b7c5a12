"""The effects of a turn: its calls with their results, and what followed beside the reply.

The last call gives the reply; the others produce plans, tool requests or summaries that the reader
does not see. Further effects are an ended phase, a turn that started by itself, and a note about a
withheld reply in a later call. Each names the event it is known from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnlog.events.call import ContextAssembled
from turnlog.events.envelope import RecordedEvent
from turnlog.events.memory import HistorySummarised
from turnlog.events.plan import PlanMade
from turnlog.events.tool import ToolCalled
from turnlog.events.turn import TurnCompleted
from turnlog.projections.audit.calls import iterate_calls
from turnlog.projections.audit.known import PartialLog
from turnlog.projections.audit.origins import EventRef, build_event_ref


@dataclass(frozen=True, slots=True)
class TurnCall:
    """One call of a turn."""

    call: str
    kind: str
    fixed: EventRef
    """The event that fixed its prompt."""
    tokens: int
    """Tokens of its prompt."""
    gave: tuple[str, ...]
    """What its answer produced: a plan, tools, a summary, the reply; empty if it had no answer."""


def list_turn_calls(log: PartialLog, turn: int) -> tuple[TurnCall, ...]:
    """Return the calls of a turn in order; all events of the turn must be loaded."""
    return tuple(
        _build_turn_call(recorded, call, log)
        for recorded, call in iterate_calls(log.events)
        if call.turn == turn
    )


def _build_turn_call(recorded: RecordedEvent, call: ContextAssembled, log: PartialLog) -> TurnCall:
    gave = (what for each in log.events for what in _iterate_results(each, call.call))
    manifest = call.manifest
    return TurnCall(call.call, manifest.kind, build_event_ref(recorded), manifest.tokens, tuple(gave))


def _iterate_results(recorded: RecordedEvent, call: str) -> Iterator[str]:
    match recorded.event:
        case PlanMade(call=made, steps=steps) if made == call:
            yield f"a plan of {steps} {'step' if steps == 1 else 'steps'}"
        case ToolCalled(call=asked, tool=tool) if asked == call:
            yield tool
        case HistorySummarised(call=made, view=view) if made == call:
            yield f"a summary of {view}"
        case TurnCompleted(call=answered) if answered == call:
            yield "the reply"
        case _:
            pass
