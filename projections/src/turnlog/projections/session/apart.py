from __future__ import annotations

from typing import Final

from turnlog.events.errors import Refused
from turnlog.projections.session.attempts import NewEvents
from turnlog.projections.session.commands import EnterPhase
from turnlog.projections.session.phasing import PhaseTransition, enter_phase, require_open_session
from turnlog.projections.session.state import SessionState

NAMED_PHASE_SIGNAL: Final = "asked"
"""Signal of a phase change by a caller who names the phase."""


def enter_named_phase(state: SessionState, command: EnterPhase) -> NewEvents:
    """Move to a named phase, with a text carried over where the blueprint allows it.

    Only phases that the blueprint lists in `order` can be entered by name. Entering the current
    phase without a text changes nothing, so a repeated request is harmless.
    """
    require_open_session(state)
    graph, phase = command.phases, command.phase
    if not graph.spec.order:
        fix = "send a signal that the phase offers"
        raise Refused("phase-not-free", "its cartridge says what follows", field="to", fix=fix)
    if phase not in graph.phases:
        known = ", ".join(graph.phases)
        raise Refused(
            "unknown-phase", f"there is no phase {phase[:80]!r}", field="to", fix=f"one of: {known}"
        )
    if phase == state.phase and command.carry is None:
        return ()
    if state.open is not None:
        raise Refused("turn-open", f"turn {state.open.turn} is not answered yet", fix="wait for it")
    return enter_phase(state, graph, PhaseTransition(phase, NAMED_PHASE_SIGNAL), carried=_prepare_carry(state, command))


def _prepare_carry(state: SessionState, command: EnterPhase) -> str | None:
    if command.carry is None:
        return None
    graph = command.phases
    if graph.spec.carry.forward == "none":
        detail = "its blueprint lets nothing be carried from phase to phase"
        raise Refused("carry-not-allowed", detail, field="carry", fix="leave it out")
    if not graph.is_forward_move(state.phase, command.phase):
        detail = f"{command.phase} does not lie behind {state.phase}, and nothing goes backward"
        raise Refused("carry-backward", detail, field="carry", fix="leave it out")
    return graph.format_carried_summary(state.phase, command.carry)
