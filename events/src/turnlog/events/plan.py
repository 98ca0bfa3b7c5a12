from __future__ import annotations

from typing import ClassVar

from turnlog.events.content import Content
from turnlog.events.fact import EventModel


class PlanMade(EventModel):
    """A turn has a plan; its steps are the events that follow this one."""

    type: ClassVar[str] = "turnlog.plan-made.v1"
    leaf: ClassVar[str] = "turn"

    turn: int
    """The turn number."""
    call: str
    """The call whose answer is the plan."""
    steps: int
    """Number of steps; 0 if the question can be answered at once."""


class StepPlanned(EventModel):
    """One step of a plan."""

    type: ClassVar[str] = "turnlog.step-planned.v1"
    leaf: ClassVar[str] = "turn"

    turn: int
    """The turn number."""
    step: int
    """Step number within the plan, from 1."""
    goal: Content
    """The goal in the model's words."""
    tools: tuple[str, ...] = ()
    """Tools the step may use; any offered tool if empty."""
    given: int | None = None
    """Sequence of a tool result of the previous turn that already satisfies the step; no call is
    made.
    """
