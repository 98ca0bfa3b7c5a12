"""Events of a plan: what a turn is to be done in, one step after another.

Each step is an event of its own, so that its goal is a text that prompts refer to like any other.
"""

from __future__ import annotations

from typing import ClassVar

from turnlog.events.content import Content
from turnlog.events.fact import Fact


class PlanMade(Fact):
    """A turn has a plan; its steps are the events behind this one."""

    type: ClassVar[str] = "turnlog.plan-made.v1"
    leaf: ClassVar[str] = "turn"

    turn: int
    """The turn."""
    call: str
    """The call whose answer it is."""
    steps: int
    """How many steps it has; none where the question can be answered at once."""


class StepPlanned(Fact):
    """One step of a plan."""

    type: ClassVar[str] = "turnlog.step-planned.v1"
    leaf: ClassVar[str] = "turn"

    turn: int
    """The turn."""
    step: int
    """1, 2, 3 ... within the plan."""
    goal: Content
    """What it is for, in the model's words."""
    tools: tuple[str, ...] = ()
    """The tools it may take; any that is offered, where none is named."""
    given: int | None = None
    """Sequence of the tool's return that it is done by already, of the turn before; no call is made
    for it then."""
