"""Turn activity: the plan steps and tool uses of a turn before its reply.

It is a read model for people, as the history is. Windows have events of their own for steps and
tool results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from turnlog.events.content import get_plain_text
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.tool_events import StepPlanned, ToolCalled, ToolReturned


@dataclass(frozen=True, slots=True)
class TurnPlanStep:
    """A step of a turn's plan."""

    step: int
    """The step number."""
    goal: str | None
    """The goal of the step."""
    given: bool
    """Whether the previous turn's result was reused and no call was made."""


@dataclass(frozen=True, slots=True)
class TurnToolUse:
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


@dataclass(frozen=True, slots=True)
class TurnActivity:
    """The plan steps and tool uses of one turn."""

    steps: tuple[TurnPlanStep, ...] = ()
    """The turn's plan, where it has one."""
    uses: tuple[TurnToolUse, ...] = ()
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
        case ToolReturned(turn=turn) as back if turn in found:
            found[turn] = _add_tool_result(found[turn], back)
        case _:
            pass


def withhold_texts(activity: TurnActivity) -> TurnActivity:
    """Return the activity of a turn whose reply is withheld: what was done, without the texts."""
    return TurnActivity(
        tuple(replace(step, goal=None) for step in activity.steps),
        tuple(
            replace(use, arguments="", detail="", text=None, characters=0) for use in activity.uses
        ),
    )


def format_activity(activity: TurnActivity) -> Iterator[str]:
    """Yield one line for each step, with its tools indented below it, then the tools of no step."""
    for step in activity.steps:
        goal = "(no longer readable)" if step.goal is None else step.goal
        yield f"{step.step}. {goal}" + (" (done by the turn before)" if step.given else "")
        yield from (f"   {_format_tool_use(use)}" for use in activity.uses if use.step == step.step)
    yield from (_format_tool_use(use) for use in activity.uses if use.step is None)


def _format_tool_use(use: TurnToolUse) -> str:
    detail = f": {use.detail}" if use.detail else ""
    outcome = f"{use.outcome}{detail}" if use.outcome else "under way"
    return f"{use.tool} {use.arguments} · {outcome}"


def _build_plan_step(step: StepPlanned) -> TurnPlanStep:
    return TurnPlanStep(step.step, get_plain_text(step.goal), step.given is not None)


def _start_tool_use(called: ToolCalled) -> TurnToolUse:
    return TurnToolUse(
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


def _add_tool_result(activity: TurnActivity, back: ToolReturned) -> TurnActivity:
    uses = (
        _finish_tool_use(use, back) if (use.call, use.id) == (back.call, back.id) else use
        for use in activity.uses
    )
    return replace(activity, uses=tuple(uses))


def _finish_tool_use(use: TurnToolUse, back: ToolReturned) -> TurnToolUse:
    return replace(
        use,
        outcome=back.outcome,
        detail=back.detail,
        text=get_plain_text(back.text),
        characters=back.characters,
        condensed=back.treatment == "condensed",
        milliseconds=back.milliseconds,
    )
