"""Turn activity: the plan steps and tool uses of a turn before its reply.

It is a read model for people, as the history is. Windows have events of their own for steps and
tool results.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from turnlog.events.content import get_plain_text
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.child_events import ChildOutcome, ChildRequested, ChildSettled
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    ApprovalDecision,
    ApprovalRequested,
    StepPlanned,
    ToolCalled,
    ToolReturned,
)


@dataclass(frozen=True, slots=True)
class StepActivity:
    """A step of a turn's plan."""

    step: int
    """The step number."""
    goal: str | None
    """The goal of the step."""
    given: bool
    """Whether the previous turn's result was reused and no call was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalActivity:
    """The approval that a tool needs before it runs, and what was decided."""

    approval: int
    """Its number within the turn."""
    deadline: str
    """Without a decision by then the tool is refused."""
    decision: ApprovalDecision | None = None
    """The decision; None while there is none."""
    reason: str = ""
    """The reason that was given."""
    by: str | None = None
    """The person who decided; None if the deadline passed first."""
    edited: str | None = None
    """The arguments that the person wrote instead; None if the model's stay."""


@dataclass(frozen=True, slots=True)
class ChildActivity:
    """The turn of a child session that a coordinator asked for."""

    session: str
    """Id of the child session."""
    turn: int
    """Number of the turn in it."""
    outcome: ChildOutcome | None = None
    """Its outcome; None while the coordinator waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolActivity:
    """A tool that a model requested, and its outcome."""

    call: str
    """The call that requested it."""
    id: str
    """The provider's id of the tool request."""
    tool: str
    """The name of the tool."""
    arguments: str
    """The arguments as the model wrote them."""
    step: int | None
    """The plan step that it belongs to."""
    outcome: str | None
    """The outcome; None until the tool returns."""
    detail: str
    """Why it was refused, failed or was lost."""
    text: str | None
    """The text that prompts contain."""
    characters: int
    """The length of the whole result."""
    condensed: bool
    """Whether prompts contain a summary of it."""
    milliseconds: int | None
    """How long the tool server took."""
    approval: ApprovalActivity | None = None
    """The approval that it needs, if any."""
    child: ChildActivity | None = None
    """The child's turn that it stands for, if the tool is a child of a coordinator."""
    sequence: int = 0
    """Sequence of the event with its outcome; 0 until it returns."""
    parts: tuple[MediaPart, ...] = ()
    """The pictures, recordings and files of the result."""


@dataclass(frozen=True, slots=True)
class TurnActivity:
    """The plan steps and tool uses of one turn."""

    steps: tuple[StepActivity, ...] = ()
    """The turn's plan, where it has one."""
    uses: tuple[ToolActivity, ...] = ()
    """The requested tools, in order of request."""


NO_ACTIVITY = TurnActivity()
"""The activity of a turn that only called a model."""

ActivityByTurn = dict[int, TurnActivity]


def collect_activity(events: Iterable[RecordedEvent]) -> ActivityByTurn:
    """Return the activity of each turn that planned steps or requested tools."""
    found: ActivityByTurn = {}
    for recorded in events:
        update_activity(found, recorded)
    return found


def update_activity(found: ActivityByTurn, recorded: RecordedEvent) -> None:
    """Apply one more event to the activity collected so far."""
    match recorded.event:
        case StepPlanned(turn=turn) as step:
            done = found.get(turn, NO_ACTIVITY)
            found[turn] = replace(done, steps=(*done.steps, _build_plan_step(step)))
        case ToolCalled(turn=turn) as called:
            done = found.get(turn, NO_ACTIVITY)
            found[turn] = replace(done, uses=(*done.uses, _start_tool_use(called)))
        case ApprovalRequested(turn=turn) as asked if turn in found:
            approval = ApprovalActivity(approval=asked.approval, deadline=asked.deadline)
            found[turn] = _replace_tool_use(found[turn], asked, partial(_set_approval, approval))
        case ApprovalDecided(turn=turn) as decided if turn in found:
            by = None if decided.cause == "deadline" else recorded.envelope.actor
            change = partial(_add_decision, decided, by)
            found[turn] = _replace_tool_use(found[turn], decided, change)
        case ChildRequested(turn=turn) as asked if turn in found:
            child = ChildActivity(asked.session, asked.child_turn)
            found[turn] = _replace_tool_use(found[turn], asked, partial(_set_child, child))
        case ChildSettled(turn=turn) as settled if turn in found:
            child = ChildActivity(settled.session, settled.child_turn, settled.outcome)
            found[turn] = _replace_tool_use(found[turn], settled, partial(_set_child, child))
        case ToolReturned(turn=turn) as back if turn in found:
            finish = partial(_finish_tool_use, back, recorded.sequence)
            found[turn] = _replace_tool_use(found[turn], back, finish)
        case _:
            pass


def withhold_texts(activity: TurnActivity, kept: Container[int] = ()) -> TurnActivity:
    """Return the activity of a turn whose reply is withheld: what was done, without the texts.

    `kept` are the sequences of the tool results that no rule withholds.
    """
    return TurnActivity(
        tuple(replace(step, goal=None) for step in activity.steps),
        tuple(use if use.sequence in kept else _withhold_tool_texts(use) for use in activity.uses),
    )


def _withhold_tool_texts(use: ToolActivity) -> ToolActivity:
    return replace(
        use,
        arguments="",
        detail="",
        text=None,
        characters=0,
        parts=(),
        approval=use.approval and replace(use.approval, reason="", edited=None),
    )


def format_activity(activity: TurnActivity) -> Iterator[str]:
    """Yield one line for each step, with its tools indented below it, then the tools of no step."""
    for step in activity.steps:
        goal = "(no longer readable)" if step.goal is None else step.goal
        yield f"{step.step}. {goal}" + (" (done by the turn before)" if step.given else "")
        yield from (f"   {_format_tool_use(use)}" for use in activity.uses if use.step == step.step)
    yield from (_format_tool_use(use) for use in activity.uses if use.step is None)


def _format_tool_use(use: ToolActivity) -> str:
    detail = f": {use.detail}" if use.detail else ""
    outcome = f"{use.outcome}{detail}" if use.outcome else describe_unfinished_use(use)
    arguments = format_arguments(use.arguments, use.approval.edited if use.approval else None)
    return f"{use.tool} {arguments} · {outcome}"


def format_arguments(asked: str, edited: str | None) -> str:
    """Return the arguments of a tool, with those that a person wrote instead."""
    return asked if edited is None else f"{asked} · edited to {edited}"


class ApprovalState(Protocol):
    """The approval of a tool, as folded here or as an answer has it."""

    @property
    def approval(self) -> int: ...
    @property
    def deadline(self) -> str: ...
    @property
    def decision(self) -> ApprovalDecision | None: ...


class AskedChild(Protocol):
    """The child's turn that a tool stands for, as folded here or as an answer has it."""

    @property
    def session(self) -> str: ...
    @property
    def turn(self) -> int: ...


class UnfinishedUse(Protocol):
    """What a tool use waits for, as folded here or as an answer has it."""

    @property
    def outcome(self) -> str | None: ...
    @property
    def approval(self) -> ApprovalState | None: ...
    @property
    def child(self) -> AskedChild | None: ...


def describe_unfinished_use(use: UnfinishedUse) -> str:
    """Return what a tool that has not returned is waiting for."""
    asked = use.approval
    if use.child is not None:
        return f"is asked as turn {use.child.turn} of {use.child.session}"
    if asked is None or not is_undecided(use):
        return "is under way"
    return f"waits for approval {asked.approval} until {asked.deadline}"


def is_undecided(use: UnfinishedUse) -> bool:
    """Return whether a tool waits for an approval."""
    return use.approval is not None and use.approval.decision is None and use.outcome is None


def _build_plan_step(step: StepPlanned) -> StepActivity:
    return StepActivity(step.step, get_plain_text(step.goal), step.given is not None)


def _start_tool_use(called: ToolCalled) -> ToolActivity:
    return ToolActivity(
        call=called.call,
        id=called.id,
        tool=called.tool,
        arguments=called.arguments,
        step=called.step,
        outcome=None,
        detail="",
        text=None,
        characters=0,
        condensed=False,
        milliseconds=None,
    )


def _replace_tool_use(
    activity: TurnActivity,
    event: ApprovalRequested | ApprovalDecided | ChildRequested | ChildSettled | ToolReturned,
    change: Callable[[ToolActivity], ToolActivity],
) -> TurnActivity:
    uses = (
        change(use) if (use.call, use.id) == (event.call, event.id) else use
        for use in activity.uses
    )
    return replace(activity, uses=tuple(uses))


def _set_child(child: ChildActivity, use: ToolActivity) -> ToolActivity:
    return replace(use, child=child)


def _set_approval(approval: ApprovalActivity, use: ToolActivity) -> ToolActivity:
    return replace(use, approval=approval)


def _add_decision(decided: ApprovalDecided, by: str | None, use: ToolActivity) -> ToolActivity:
    if use.approval is None:
        return use
    approval = replace(
        use.approval,
        decision=decided.decision,
        reason=decided.reason,
        by=by,
        edited=decided.edited,
    )
    return replace(use, approval=approval)


def _finish_tool_use(back: ToolReturned, sequence: int, use: ToolActivity) -> ToolActivity:
    return replace(
        use,
        outcome=back.outcome,
        detail=back.detail,
        text=get_plain_text(back.text),
        characters=back.characters,
        condensed=back.treatment == "condensed",
        milliseconds=back.milliseconds,
        sequence=sequence,
        parts=back.parts,
    )
