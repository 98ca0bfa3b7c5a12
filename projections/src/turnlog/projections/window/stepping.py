from __future__ import annotations

from typing import assert_never

from turnlog.projections.blueprint.layer import StepLayer
from turnlog.projections.session.programs import step_of
from turnlog.projections.session.state import OpenTurn, Said, SessionState
from turnlog.projections.window.hydrating import given_to, hydration
from turnlog.projections.window.material import Material


def told_of(layer: StepLayer, material: Material, state: SessionState) -> tuple[Said, ...]:
    """Return the text references of a step layer, oldest first."""
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
    """Return the reused results and then those of the turn's own tools."""
    given = given_to(opened, hydration(material, state).results)
    return (*given, *(use.said for use in opened.tools if use.said))
