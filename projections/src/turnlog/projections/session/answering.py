from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from turnlog.events.content import Plain
from turnlog.events.kinds import KnownEvent
from turnlog.events.plan import PlanMade, StepPlanned
from turnlog.events.tokens import ToolRequest
from turnlog.events.tool import ToolCalled
from turnlog.projections.session.attempts import (
    Events,
    answered,
    current,
    next_call,
    superseded,
)
from turnlog.projections.session.programs import number_of_step
from turnlog.projections.session.state import OpenTurn, SessionState
from turnlog.projections.session.tooling import refused
from turnlog.projections.session.turn_commands import AnswerCall

MOST_RECORDED: Final = 128
"""Most tool calls of one answer that are recorded, refused ones included; a batch fits them."""


def answer(state: SessionState, command: AnswerCall) -> Events:
    """Record an answer and start the next call; for a superseded worker record only the cost.

    One batch holds the answer, its plan or tool calls, and the claim of the same worker to the next
    call. So a call whose answer is in the log is never made again.
    """
    attempt, text = command.attempt, Plain(text=command.text)
    opened = current(state, attempt)
    if opened is None:
        return superseded(attempt, command.spent, command.text)
    repairs = (*command.repairs, *_unrecorded(command))
    return (
        *answered(attempt, command.spent, text, command.finish, kept=True, repairs=repairs),
        *_planned(command),
        *_asked(opened, command),
        next_call(opened),
    )


def _unrecorded(command: AnswerCall) -> tuple[str, ...]:
    more = len(command.tools) - MOST_RECORDED
    return (f"{more} more tools asked for, which are not recorded",) if more > 0 else ()


def _planned(command: AnswerCall) -> Iterator[KnownEvent]:
    planned, turn = command.planned, command.attempt.turn
    if planned is None:
        return
    yield PlanMade(turn=turn, call=command.attempt.call, steps=len(planned.steps))
    for number, step in enumerate(planned.steps, 1):
        goal = Plain(text=step.goal)
        yield StepPlanned(turn=turn, step=number, goal=goal, tools=step.tools, given=step.given)


def _asked(opened: OpenTurn, command: AnswerCall) -> Iterator[KnownEvent]:
    """Record the requested tool calls; a tool that was not offered is refused at once."""
    attempt = command.attempt
    step = None if opened.plan is None else number_of_step(opened)
    for number, wanted in enumerate(_told_apart(command.tools[:MOST_RECORDED]), 1):
        called = ToolCalled(
            turn=attempt.turn,
            call=attempt.call,
            id=wanted.id,
            tool=wanted.tool,
            arguments=wanted.arguments,
            step=step,
        )
        yield called
        if wanted.tool not in command.offered:
            yield refused(called, f"no tool {wanted.tool[:80]!r} was offered")
        elif number > command.most:
            yield refused(called, f"one answer may ask for {command.most} tools")


def _told_apart(tools: tuple[ToolRequest, ...]) -> Iterator[ToolRequest]:
    """Give every request a unique id: some providers send none, or the same id for all."""
    seen = {""}
    for number, wanted in enumerate(tools, 1):
        id = wanted.id
        while id in seen:
            id = f"{id}#{number}"
        seen.add(id)
        yield ToolRequest(id=id, tool=wanted.tool, arguments=wanted.arguments)
