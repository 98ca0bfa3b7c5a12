from __future__ import annotations

from typing import assert_never

from turnlog.projections.blueprint.layer import LayerCondition, WhenAttribute, WhenContext, WhenPhase
from turnlog.projections.session.programs import has_step_failed
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.call import PromptCall
from turnlog.projections.window.material import SessionMaterial


def is_condition_met(when: LayerCondition, material: SessionMaterial, state: SessionState, call: PromptCall) -> bool:
    """Return whether a layer's condition is met in the next call."""
    match when:
        case "first_turn":
            said = call.inputs.get("first_turn")
            return said if isinstance(said, bool) else state.completed == 0
        case "step_failed":
            return has_step_failed(state.open)
        case "reply_redacted":
            return _is_note_due(state)
        case WhenContext(context=level):
            return level in material.context_levels
        case WhenAttribute(attribute=attribute):
            return bool(state.attributes.get(attribute))
        case WhenPhase(phase=phase):
            return state.phase == phase
        case _ as never:
            assert_never(never)


def _is_note_due(state: SessionState) -> bool:
    """Return whether the redaction note belongs in this turn.

    The note is for the first turn that carries it, in all attempts at that turn.
    """
    turn = state.open.turn if state.open else state.submitted + 1
    return state.note is not None and state.note.told in {None, turn}


def format_condition(when: LayerCondition) -> str:
    """Return a condition as the manifest spells it."""
    match when:
        case WhenContext(context=level):
            return f"context {level}"
        case WhenAttribute(attribute=attribute):
            return f"attribute {attribute}"
        case WhenPhase(phase=phase):
            return f"phase {phase}"
        case _:
            return when
