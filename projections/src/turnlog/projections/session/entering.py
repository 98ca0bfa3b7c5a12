"""`evolve`: the state of a session after one more event; and `fold` over many events.

The fold never fails on recorded history and reads no clock. It decides nothing: what a rule forbids
was refused before it was recorded.
"""

from __future__ import annotations

from turnlog.events.envelope import RecordedEvent
from turnlog.events.phase import PhaseEntered
from turnlog.projections.session.replacing import replace
from turnlog.projections.session.standing import build_optional_text_ref
from turnlog.projections.session.state import LastReference, SessionState
from turnlog.projections.session.turns import find_settled_turn


def apply_phase_entered(state: SessionState, recorded: RecordedEvent, event: PhaseEntered) -> SessionState:
    """Return the state after entering a phase, without what the new phase may not see."""
    been = tuple(dict.fromkeys((*state.visited, event.phase)))
    told = build_optional_text_ref(recorded, "carried", event.carried)
    reference = _filter_reference(state, event)
    return replace(
        state, phase=event.phase, exchanges=0, visited=been, carried=told, reference=reference
    )


def _filter_reference(state: SessionState, event: PhaseEntered) -> LastReference | None:
    """Keep the last reference unless its turn belongs to a hidden phase."""
    reference = state.reference
    answered = find_settled_turn(state, reference.turn) if reference and event.hidden else None
    return None if answered and answered.phase in event.hidden else reference
