"""Turn programs: which call comes next in a turn, derived from the state alone.

Because nothing else is stored, a worker that takes a turn over continues at the right call. A turn
under `chat` or `knowledge` is one call. Under `tools` there is a plan call, then one tactic call
for each step, then the reply call. A step whose tools all failed is retried once. Under `loop` one
call is repeated: an answer that calls tools begins a round, and an answer that calls none is the
reply.
The tools of a round above the limit are refused, and the call after it is the last. Requested tools
run before the next call, and before they run, the approvals that they need are decided. A
`coordinator` is such a loop, whose tools are the turns of its child sessions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from turnlog.projections.blueprint.schema.call_specs import ProfileSpec
from turnlog.projections.session.state import AnsweredCall, OpenTurn, PlannedStep, ToolUse

CallStage = Literal["summarise", "plan", "act", "loop", "reply"]
"""What the next call of a turn is for; only the text of `loop` and `reply` is shown to callers."""


def get_call_stage(profile: ProfileSpec, opened: OpenTurn | None) -> CallStage:
    """Return what the next call is for; without an open turn, what the first call is for."""
    if opened is not None and opened.summing is not None:
        return "summarise"
    if profile.program in {"chat", "knowledge"}:
        return "reply"
    if profile.has_rounds:
        return "loop" if len(list_tool_rounds(opened)) <= profile.round_limit else "reply"
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
    return bool(last_tool_uses) and all(map(_may_retry_tool, last_tool_uses))


def _may_retry_tool(use: ToolUse) -> bool:
    """Return whether a tool failed; one that a person refused is not to be requested again."""
    return use.failed and (use.approval is None or use.approval.decision != "refuse")


@dataclass(frozen=True, slots=True)
class ToolRound:
    """An answer that called tools, and these tools in the order in which it called them."""

    answer: AnsweredCall
    tools: tuple[ToolUse, ...]


def list_tool_rounds(opened: OpenTurn | None) -> tuple[ToolRound, ...]:
    """Return the rounds of tool calls that the open turn has had, oldest first."""
    if opened is None:
        return ()
    by_call: dict[str, list[ToolUse]] = {}
    for use in opened.tools:
        by_call.setdefault(use.call, []).append(use)
    return tuple(
        ToolRound(answer, tuple(by_call[answer.call]))
        for answer in opened.answers
        if answer.call in by_call
    )


def has_used_rounds(profile: ProfileSpec, opened: OpenTurn | None) -> bool:
    """Return whether a turn has had its rounds, so that further tool calls are refused."""
    return len(list_tool_rounds(opened)) >= profile.round_limit


def list_undecided_tools(opened: OpenTurn | None) -> tuple[ToolUse, ...]:
    """Return the tools that wait for an approval; the turn goes on when there are none."""
    pending = list_pending_tools(opened) if opened else ()
    return tuple(use for use in pending if use.approval and use.approval.decision is None)


def list_pending_children(opened: OpenTurn | None) -> tuple[ToolUse, ...]:
    """Return the turns of child sessions that are not settled; none of them runs in a worker."""
    pending = list_pending_tools(opened) if opened else ()
    return tuple(use for use in pending if use.child is not None)


def list_pending_tools(opened: OpenTurn) -> tuple[ToolUse, ...]:
    """Return the requested tools that have not returned, in order."""
    return tuple(use for use in opened.tools if not use.returned)
