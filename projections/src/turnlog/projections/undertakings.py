"""Undertakings: what a turn did before it was answered, its plan and the tools it asked for.

It is for people, as the history is; windows tell of steps and results by events of their own.
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
    """A tool that a model asked for."""

    called: ToolCalled
    back: ToolReturned | None = None
    """What came of it; none as long as it has not come back."""


@dataclass(frozen=True, slots=True)
class Undertaking:
    """What one turn did."""

    steps: tuple[StepPlanned, ...] = ()
    """Its plan, where it has one."""
    uses: tuple[Use, ...] = ()
    """In order."""


NOTHING = Undertaking()
"""Of a turn that only asked a model."""
Undertakings = dict[int, Undertaking]


def undertakings(events: Iterable[Recorded]) -> Undertakings:
    """Give what turns did, for those that did anything."""
    found: Undertakings = {}
    for recorded in events:
        learn(found, recorded)
    return found


def learn(found: Undertakings, recorded: Recorded) -> None:
    """Add what one more event says."""
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
    """Tell it to people: each step, and under it the tools that were taken in it."""
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
