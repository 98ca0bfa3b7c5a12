from __future__ import annotations

from typing import Final

from turnlog.events.errors import Refused
from turnlog.projections.session.attempts import Events
from turnlog.projections.session.commands import EnterPhase
from turnlog.projections.session.phasing import Step, entered, still_open
from turnlog.projections.session.state import SessionState

ASKED: Final = "asked"
"""Signal of a phase change by a caller who names the phase."""


def enter(state: SessionState, command: EnterPhase) -> Events:
    """Move to a named phase, with a text carried over where the blueprint allows it.

    Only phases that the blueprint lists in `order` can be entered by name. Entering the current
    phase without a text changes nothing, so a repeated request is harmless.
    """
    still_open(state)
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
    return entered(state, graph, Step(phase, ASKED), carried=_carried(state, command))


def _carried(state: SessionState, command: EnterPhase) -> str | None:
    if command.carry is None:
        return None
    graph = command.phases
    if graph.spec.carry.forward == "none":
        detail = "its blueprint lets nothing be carried from phase to phase"
        raise Refused("carry-not-allowed", detail, field="carry", fix="leave it out")
    if not graph.goes_forward(state.phase, command.phase):
        detail = f"{command.phase} does not lie behind {state.phase}, and nothing goes backward"
        raise Refused("carry-backward", detail, field="carry", fix="leave it out")
    return graph.carried(state.phase, command.carry)
