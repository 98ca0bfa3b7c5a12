"""The effects of a turn: its calls with their results, and what followed beside the reply.

The last call gives the reply; the others produce plans, tool requests or summaries that the reader
does not see. Further effects are an ended phase, a turn that started by itself, and a note about a
withheld reply in a later call. Each names the event it is known from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnlog.events.call import ContextAssembled
from turnlog.events.envelope import Recorded
from turnlog.events.memory import HistorySummarised
from turnlog.events.plan import PlanMade
from turnlog.events.tool import ToolCalled
from turnlog.events.turn import TurnCompleted
from turnlog.projections.audit.calls import calls_in
from turnlog.projections.audit.known import Known
from turnlog.projections.audit.origins import Cause, cause


@dataclass(frozen=True, slots=True)
class CallMade:
    """One call of a turn."""

    call: str
    kind: str
    fixed: Cause
    """The event that fixed its prompt."""
    tokens: int
    """Tokens of its prompt."""
    gave: tuple[str, ...]
    """What its answer produced: a plan, tools, a summary, the reply; empty if it had no answer."""


def making(record: Known, turn: int) -> tuple[CallMade, ...]:
    """Return the calls of a turn in order; all events of the turn must be loaded."""
    return tuple(
        _made(recorded, call, record)
        for recorded, call in calls_in(record.events)
        if call.turn == turn
    )


def _made(recorded: Recorded, call: ContextAssembled, record: Known) -> CallMade:
    gave = (what for each in record.events for what in _gave(each, call.call))
    manifest = call.manifest
    return CallMade(call.call, manifest.kind, cause(recorded), manifest.tokens, tuple(gave))


def _gave(recorded: Recorded, call: str) -> Iterator[str]:
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
