"""What a turn under way says of itself: its step, what its tools gave, and what tools there are."""

from __future__ import annotations

from typing import assert_never

from turnlog.events.manifest import FromBlob
from turnlog.projections.blueprint.layer import StepLayer, ToolsLayer
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


def tools_text(layer: ToolsLayer, state: SessionState) -> FromBlob | None:
    """Say which text tells of the tools; none before they are known."""
    taken = state.tools.get(state.profile)
    if taken is None:
        return None
    if layer.full == "always" or state.completed == 0:
        return FromBlob(digest=taken.full, path=f"tools of {taken.profile}, in full")
    return FromBlob(digest=taken.names, path=f"tools of {taken.profile}, by name")
