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
from typing import Final, Literal, assert_never

from turnlog.projections.blueprint.schema.call_specs import ProfileSpec
from turnlog.projections.session.open_turn import AnsweredCall, OpenTurn, PlannedStep
from turnlog.projections.session.tool_uses import ReturnedTool, ToolUse

CallStage = Literal["summarise", "query", "plan", "act", "loop", "reply"]
"""What the next call of a turn is for; only the text of `loop` and `reply` is shown to callers."""

SIDE_STAGES: Final = frozenset({"summarise", "query"})
"""The stages of calls that a turn can do without: one that fails is not repeated."""


def get_call_stage(profile: ProfileSpec, opened: OpenTurn | None) -> CallStage:
    """Return what the next call is for; without an open turn, what the first call is for."""
    if opened is not None and opened.summing is not None:
        return "summarise"
    if opened is not None and opened.querying is not None:
        return "query"
    match profile.program:
        case "chat" | "knowledge":
            return "reply"
        case "loop" | "coordinator":
            return "loop" if len(list_tool_rounds(opened)) <= profile.round_limit else "reply"
        case "tools":
            if opened is None or opened.plan is None:
                return "plan"
            return "act" if find_current_step(opened) else "reply"
        case _ as never:
            assert_never(never)


def find_current_step(opened: OpenTurn | None) -> PlannedStep | None:
    """Return the plan step of the next call, or None."""
    if opened is None or opened.plan is None:
        return None
    number, steps = get_step_number(opened), opened.plan.steps
    return steps[number - 1] if number <= len(steps) else None


def get_step_number(opened: OpenTurn) -> int:
    """Return the number of the next step, from 1; beyond the plan when no step is left.

    Steps that a result of the previous turn already satisfies are skipped.
    """
    plan = opened.plan
    steps = plan.steps if plan else ()
    acted = plan.acted.number if plan and plan.acted else 0
    number = acted + (not has_step_failed(opened))
    while number <= len(steps) and steps[number - 1].given is not None:
        number += 1
    return number


def has_step_failed(opened: OpenTurn | None) -> bool:
    """Return whether all tools of the latest step failed, so that the step is to be retried.

    A tool whose outcome is unknown has not failed.
    """
    acted = opened.plan.acted if opened and opened.plan else None
    if opened is None or acted is None or acted.is_retry:
        return False
    call = opened.answers[-1].call if opened.answers else None
    last_tool_uses = [use for use in opened.tools if use.call == call]
    return bool(last_tool_uses) and all(map(_may_retry_tool, last_tool_uses))


def _may_retry_tool(use: ToolUse) -> bool:
    """Return whether a tool failed; one that a person refused is not to be requested again."""
    has_failed = isinstance(use.progress, ReturnedTool) and use.progress.has_failed
    return has_failed and not use.is_approval_refused


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
