from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, assert_never

from turnlog.events.call import CallCompleted
from turnlog.events.envelope import RecordedEvent
from turnlog.events.plan import PlanMade, StepPlanned
from turnlog.events.tool import ToolCalled, ToolReturned, ToolStarted
from turnlog.projections.session.programs import get_step_number, has_step_failed
from turnlog.projections.session.replacing import replace
from turnlog.projections.session.standing import build_optional_text_ref, build_text_ref
from turnlog.projections.session.state import (
    MAX_PRIOR_RESULTS,
    ToolResultRef,
    OpenTurn,
    PlannedStep,
    PriorToolResults,
    TextRef,
    ToolUse,
)

TurnProgressEvent = CallCompleted | PlanMade | StepPlanned | ToolCalled | ToolStarted | ToolReturned
"""Events that continue a turn without settling it."""
_FAILED_OUTCOMES: Final = frozenset({"failed", "refused"})
"""Outcomes of a tool that is known not to have done its work."""


def advance_open_turn(opened: OpenTurn, recorded: RecordedEvent, event: TurnProgressEvent) -> OpenTurn:
    match event:
        case CallCompleted(text=None):
            return opened
        case CallCompleted(attempt=attempt):
            return replace(_count_step(opened), answered=opened.calls, begun=attempt, context=None)
        case PlanMade():
            return replace(opened, plan=())
        case StepPlanned(goal=goal, tools=tools, given=given):
            step = PlannedStep(build_text_ref(recorded, "goal", goal), tools, given)
            return replace(opened, plan=(*(opened.plan or ()), step))
        case ToolCalled(call=call, id=id, tool=tool):
            use = ToolUse(call, id, tool, recorded.stream_sequence)
            return replace(opened, tools=(*opened.tools, use))
        case ToolStarted(attempt=attempt):
            return _update_tool_use(opened, event, lambda use: replace(use, started=attempt))
        case ToolReturned(text=text):
            back = build_optional_text_ref(recorded, "text", text)
            later = _build_result_ref(recorded, event, back)
            failed = event.outcome in _FAILED_OUTCOMES
            short = event.treatment == "condensed"
            change = partial(
                replace, returned=True, failed=failed, said=back, distilled=short, given=later
            )
            return _update_tool_use(opened, event, change)
        case _ as never:
            assert_never(never)


def _count_step(opened: OpenTurn) -> OpenTurn:
    """Count the step whose tactic call was answered; a retried step is already counted."""
    if has_step_failed(opened):
        return replace(opened, retaken=opened.acted)
    return opened if opened.plan is None else replace(opened, acted=get_step_number(opened))


def _update_tool_use(
    opened: OpenTurn, event: ToolStarted | ToolReturned, change: Callable[[ToolUse], ToolUse]
) -> OpenTurn:
    named = (event.call, event.id)
    tools = (change(use) if (use.call, use.id) == named else use for use in opened.tools)
    return replace(opened, tools=tuple(tools))


def _build_result_ref(recorded: RecordedEvent, event: ToolReturned, back: TextRef | None) -> ToolResultRef | None:
    """Return the result for later turns, or None unless the tool answered."""
    if back is None or event.outcome != "answered":
        return None
    later = build_optional_text_ref(recorded, "summary", event.summary) or back
    return ToolResultRef(back, later, event.treatment == "condensed")


def collect_prior_results(turn: int, opened: OpenTurn | None, phase: str | None) -> PriorToolResults | None:
    """Return the tool results of a turn that is completed, or None where it has none."""
    given = [use.given for use in opened.tools if use.given] if opened else []
    return PriorToolResults(turn, phase, tuple(given[-MAX_PRIOR_RESULTS:])) if given else None


def list_pending_tools(opened: OpenTurn) -> tuple[ToolUse, ...]:
    """Return the requested tools that have not returned, in order."""
    return tuple(use for use in opened.tools if not use.returned)
