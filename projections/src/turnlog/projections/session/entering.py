"""`evolve`: the state of a session after one more event; and `fold` over many events.

The fold never fails on recorded history and reads no clock. It decides nothing: what a rule forbids
was refused before it was recorded.
"""

from __future__ import annotations

from turnlog.events.envelope import Recorded
from turnlog.events.phase import PhaseEntered
from turnlog.projections.session.replacing import replace
from turnlog.projections.session.standing import said
from turnlog.projections.session.state import Reference, SessionState
from turnlog.projections.session.turns import status_of


def arrived(state: SessionState, recorded: Recorded, event: PhaseEntered) -> SessionState:
    """Return the state after entering a phase, without what the new phase may not see."""
    been = tuple(dict.fromkeys((*state.visited, event.phase)))
    told = said(recorded, "carried", event.carried)
    reference = _known(state, event)
    return replace(
        state, phase=event.phase, exchanges=0, visited=been, carried=told, reference=reference
    )


def _known(state: SessionState, event: PhaseEntered) -> Reference | None:
    """Keep the last reference unless its turn belongs to a hidden phase."""
    reference = state.reference
    answered = status_of(state, reference.turn) if reference and event.hidden else None
    return None if answered and answered.phase in event.hidden else reference
