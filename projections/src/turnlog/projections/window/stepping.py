"""What a turn under way says of itself: its step, and what its tools gave."""

from __future__ import annotations

from typing import assert_never

from turnlog.projections.blueprint.layer import StepLayer
from turnlog.projections.session.programs import step_of
from turnlog.projections.session.state import Said, SessionState


def told_of(layer: StepLayer, state: SessionState) -> tuple[Said, ...]:
    """Give where the texts of a step layer stand, in the order they came."""
    opened = state.open
    match layer.step:
        case "goal":
            step = step_of(opened)
            return (step.goal,) if step else ()
        case "results":
            return tuple(use.said for use in opened.tools if use.said) if opened else ()
        case _ as never:
            assert_never(never)
