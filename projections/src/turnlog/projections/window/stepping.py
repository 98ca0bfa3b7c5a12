"""What a turn under way says of itself: its step, and what its tools gave."""

from __future__ import annotations

from typing import assert_never

from turnlog.projections.blueprint.layer import StepLayer
from turnlog.projections.session.programs import step_of
from turnlog.projections.session.state import OpenTurn, Said, SessionState
from turnlog.projections.window.hydrating import given_to, hydration
from turnlog.projections.window.material import Material


def told_of(layer: StepLayer, material: Material, state: SessionState) -> tuple[Said, ...]:
    """Give where the texts of a step layer stand, in the order they came."""
    opened = state.open
    match layer.step:
        case "goal":
            step = step_of(opened)
            return (step.goal,) if step else ()
        case "results":
            return _results(opened, material, state) if opened else ()
        case _ as never:
            assert_never(never)


def _results(opened: OpenTurn, material: Material, state: SessionState) -> tuple[Said, ...]:
    """Give what the turn's tools gave, after what it was given by the turn before."""
    given = given_to(opened, hydration(material, state).results)
    return (*given, *(use.said for use in opened.tools if use.said))
