from __future__ import annotations

from typing import assert_never

from turnlog.projections.blueprint.layer import StepLayer
from turnlog.projections.session.programs import find_current_step
from turnlog.projections.session.state import OpenTurn, TextRef, SessionState
from turnlog.projections.window.hydrating import list_reused_refs, find_prior_results
from turnlog.projections.window.material import SessionMaterial


def list_step_refs(layer: StepLayer, material: SessionMaterial, state: SessionState) -> tuple[TextRef, ...]:
    """Return the text references of a step layer, oldest first."""
    opened = state.open
    match layer.step:
        case "goal":
            step = find_current_step(opened)
            return (step.goal,) if step else ()
        case "results":
            return _list_result_refs(opened, material, state) if opened else ()
        case _ as never:
            assert_never(never)


def _list_result_refs(opened: OpenTurn, material: SessionMaterial, state: SessionState) -> tuple[TextRef, ...]:
    """Return the reused results and then those of the turn's own tools."""
    given = list_reused_refs(opened, find_prior_results(material, state).results)
    return (*given, *(use.said for use in opened.tools if use.said))
