"""Turn activity: the plan steps and tool uses of a turn before its reply.

It is a read model for people, as the history is. Windows have events of their own for steps and
tool results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from turnlog.events.content import Plain
from turnlog.events.envelope import Recorded
from turnlog.events.plan import StepPlanned
from turnlog.events.tool import ToolCalled, ToolReturned


@dataclass(frozen=True, slots=True)
class Use:
    """A tool that a model requested."""

    called: ToolCalled
    back: ToolReturned | None = None
    """The result of the request; None until the tool returns."""


@dataclass(frozen=True, slots=True)
class Undertaking:
    """The plan steps and tool uses of one turn."""

    steps: tuple[StepPlanned, ...] = ()
    """The turn's plan, where it has one."""
    uses: tuple[Use, ...] = ()
    """The requested tools, in order of request."""


NOTHING = Undertaking()
"""The activity of a turn that only called a model."""
Undertakings = dict[int, Undertaking]


def undertakings(events: Iterable[Recorded]) -> Undertakings:
    """Return the activity of each turn that planned steps or requested tools."""
    found: Undertakings = {}
    for recorded in events:
        learn(found, recorded)
    return found


def learn(found: Undertakings, recorded: Recorded) -> None:
    """Apply one more event to the activity collected so far."""
    match recorded.event:
        case StepPlanned(turn=turn) as step:
            done = found.get(turn, NOTHING)
            found[turn] = replace(done, steps=(*done.steps, step))
        case ToolCalled(turn=turn) as called:
            done = found.get(turn, NOTHING)
            found[turn] = replace(done, uses=(*done.uses, Use(called)))
        case ToolReturned(turn=turn) as back if turn in found:
            found[turn] = _returned(found[turn], back)
        case _:
            pass


def lines(done: Undertaking) -> Iterator[str]:
    """Yield one line for each step, with its tools indented below it, then the tools of no step."""
    for step in done.steps:
        goal = step.goal.text if isinstance(step.goal, Plain) else "(it cannot be read any more)"
        yield f"{step.step}. {goal}" + (" (done by the turn before)" if step.given else "")
        yield from (f"   {_used(use)}" for use in done.uses if use.called.step == step.step)
    yield from (_used(use) for use in done.uses if use.called.step is None)


def _used(use: Use) -> str:
    back = use.back
    came = f"{back.outcome}{f': {back.detail}' if back.detail else ''}" if back else "under way"
    return f"{use.called.tool} {use.called.arguments} · {came}"


def _returned(done: Undertaking, back: ToolReturned) -> Undertaking:
    named = (back.call, back.id)
    uses = (
        replace(u, back=back) if (u.called.call, u.called.id) == named else u for u in done.uses
    )
    return replace(done, uses=tuple(uses))
