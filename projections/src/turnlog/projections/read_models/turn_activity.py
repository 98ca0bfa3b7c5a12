"""Turn activity: the plan steps and tool uses of a turn before its reply.

It is a read model for people, as the history is. Windows have events of their own for steps and
tool results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from turnlog.events.content import PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.tool_events import StepPlanned, ToolCalled, ToolReturned


@dataclass(frozen=True, slots=True)
class TurnToolUse:
    """A tool that a model requested."""

    called: ToolCalled
    back: ToolReturned | None = None
    """The result of the request; None until the tool returns."""


@dataclass(frozen=True, slots=True)
class TurnActivity:
    """The plan steps and tool uses of one turn."""

    steps: tuple[StepPlanned, ...] = ()
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
            found[turn] = replace(done, steps=(*done.steps, step))
        case ToolCalled(turn=turn) as called:
            done = found.get(turn, NO_ACTIVITY)
            found[turn] = replace(done, uses=(*done.uses, TurnToolUse(called)))
        case ToolReturned(turn=turn) as back if turn in found:
            found[turn] = _add_tool_result(found[turn], back)
        case _:
            pass


def format_activity(activity: TurnActivity) -> Iterator[str]:
    """Yield one line for each step, with its tools indented below it, then the tools of no step."""
    for step in activity.steps:
        goal = (
            step.goal.text if isinstance(step.goal, PlainText) else "(it cannot be read any more)"
        )
        yield f"{step.step}. {goal}" + (" (done by the turn before)" if step.given else "")
        yield from (
            f"   {_format_tool_use(use)}" for use in activity.uses if use.called.step == step.step
        )
    yield from (_format_tool_use(use) for use in activity.uses if use.called.step is None)


def _format_tool_use(use: TurnToolUse) -> str:
    back = use.back
    came = f"{back.outcome}{f': {back.detail}' if back.detail else ''}" if back else "under way"
    return f"{use.called.tool} {use.called.arguments} · {came}"


def _add_tool_result(activity: TurnActivity, back: ToolReturned) -> TurnActivity:
    named = (back.call, back.id)
    uses = (
        replace(u, back=back) if (u.called.call, u.called.id) == named else u for u in activity.uses
    )
    return replace(activity, uses=tuple(uses))
