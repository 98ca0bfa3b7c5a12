"""Turn programs: which call comes next in a turn, derived from the state alone.

Because nothing else is stored, a worker that takes a turn over continues at the right call. A turn
under `chat` is one call. Under `tools` there is a plan call, then one tactic call for each step,
then the reply call. The requested tools run before the next call. A step whose tools all failed is
retried once.
"""

from __future__ import annotations

from typing import Literal

from turnlog.projections.blueprint.schema.call_specs import ProfileSpec
from turnlog.projections.session.state import OpenTurn, PlannedStep, ToolUse

CallStage = Literal["summarise", "plan", "act", "reply"]
"""What the next call of a turn is for; only the text of `reply` is shown to callers."""


def get_call_stage(profile: ProfileSpec, opened: OpenTurn | None) -> CallStage:
    """Return what the next call is for; without an open turn, what the first call is for."""
    if opened is not None and opened.summing is not None:
        return "summarise"
    if profile.program == "chat":
        return "reply"
    if opened is None or opened.plan is None:
        return "plan"
    return "act" if get_step_number(opened) <= len(opened.plan) else "reply"


def find_current_step(opened: OpenTurn | None) -> PlannedStep | None:
    """Return the plan step of the next call, or None."""
    if opened is None or opened.plan is None or get_step_number(opened) > len(opened.plan):
        return None
    return opened.plan[get_step_number(opened) - 1]


def get_step_number(opened: OpenTurn) -> int:
    """Return the number of the next step, from 1; beyond the plan when no step is left.

    Steps that a result of the previous turn already satisfies are skipped.
    """
    number, steps = opened.acted + (not has_step_failed(opened)), opened.plan or ()
    while number <= len(steps) and steps[number - 1].given is not None:
        number += 1
    return number


def has_step_failed(opened: OpenTurn | None) -> bool:
    """Return whether all tools of the latest step failed, so that the step is to be retried.

    A tool whose outcome is unknown has not failed.
    """
    if opened is None or opened.plan is None or opened.acted in {0, opened.retaken}:
        return False
    call = f"{opened.turn}.{opened.answered}"
    last_tool_uses = [use for use in opened.tools if use.call == call]
    return bool(last_tool_uses) and all(use.failed for use in last_tool_uses)


def list_pending_tools(opened: OpenTurn) -> tuple[ToolUse, ...]:
    """Return the requested tools that have not returned, in order."""
    return tuple(use for use in opened.tools if not use.returned)
