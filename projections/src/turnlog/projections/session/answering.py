from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from turnlog.events.content import PlainText
from turnlog.events.kinds import KnownEvent
from turnlog.events.plan import PlanMade, StepPlanned
from turnlog.events.tokens import ToolRequest
from turnlog.events.tool import ToolCalled
from turnlog.projections.session.attempts import (
    NewEvents,
    record_answer,
    find_claimed_turn,
    start_next_call,
    record_superseded_attempt,
)
from turnlog.projections.session.programs import get_step_number
from turnlog.projections.session.state import OpenTurn, SessionState
from turnlog.projections.session.tooling import refuse_tool_call
from turnlog.projections.session.turn_commands import AnswerCall

MAX_RECORDED_TOOLS: Final = 128
"""Most tool calls of one answer that are recorded, refused ones included; a batch fits them."""


def answer_call(state: SessionState, command: AnswerCall) -> NewEvents:
    """Record an answer and start the next call; for a superseded worker record only the cost.

    One batch holds the answer, its plan or tool calls, and the claim of the same worker to the next
    call. So a call whose answer is in the log is never made again.
    """
    attempt, text = command.attempt, PlainText(text=command.text)
    opened = find_claimed_turn(state, attempt)
    if opened is None:
        return record_superseded_attempt(attempt, command.spent, command.text)
    repairs = (*command.repairs, *_describe_unrecorded(command))
    return (
        *record_answer(attempt, command.spent, text, command.finish, store_text=True, repairs=repairs),
        *_record_plan(command),
        *_record_tool_calls(opened, command),
        start_next_call(opened),
    )


def _describe_unrecorded(command: AnswerCall) -> tuple[str, ...]:
    more = len(command.tools) - MAX_RECORDED_TOOLS
    return (f"{more} more tools asked for, which are not recorded",) if more > 0 else ()


def _record_plan(command: AnswerCall) -> Iterator[KnownEvent]:
    planned, turn = command.plan, command.attempt.turn
    if planned is None:
        return
    yield PlanMade(turn=turn, call=command.attempt.call, steps=len(planned.steps))
    for number, step in enumerate(planned.steps, 1):
        goal = PlainText(text=step.goal)
        yield StepPlanned(turn=turn, step=number, goal=goal, tools=step.tools, given=step.result_sequence)


def _record_tool_calls(opened: OpenTurn, command: AnswerCall) -> Iterator[KnownEvent]:
    """Record the requested tool calls; a tool that was not offered is refused at once."""
    attempt = command.attempt
    step = None if opened.plan is None else get_step_number(opened)
    for number, wanted in enumerate(_assign_unique_ids(command.tools[:MAX_RECORDED_TOOLS]), 1):
        called = ToolCalled(
            turn=attempt.turn,
            call=attempt.call,
            id=wanted.id,
            tool=wanted.tool,
            arguments=wanted.arguments,
            step=step,
        )
        yield called
        if wanted.tool not in command.offered_tools:
            yield refuse_tool_call(called, f"no tool {wanted.tool[:80]!r} was offered")
        elif number > command.max_tools:
            yield refuse_tool_call(called, f"one answer may ask for {command.max_tools} tools")


def _assign_unique_ids(tools: tuple[ToolRequest, ...]) -> Iterator[ToolRequest]:
    """Give every request a unique id: some providers send none, or the same id for all."""
    seen = {""}
    for number, wanted in enumerate(tools, 1):
        id = wanted.id
        while id in seen:
            id = f"{id}#{number}"
        seen.add(id)
        yield ToolRequest(id=id, tool=wanted.tool, arguments=wanted.arguments)
