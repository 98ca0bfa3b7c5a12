"""Entering: the fold of a session that comes to another phase."""

from __future__ import annotations

from turnlog.events.envelope import Recorded
from turnlog.events.phase import PhaseEntered
from turnlog.projections.session.replacing import replace
from turnlog.projections.session.standing import said
from turnlog.projections.session.state import Reference, SessionState
from turnlog.projections.session.turns import status_of


def arrived(state: SessionState, recorded: Recorded, event: PhaseEntered) -> SessionState:
    """Give the state in the phase that is entered; what it may not know of is left behind."""
    been = tuple(dict.fromkeys((*state.visited, event.phase)))
    told = said(recorded, "carried", event.carried)
    reference = _known(state, event)
    return replace(
        state, phase=event.phase, exchanges=0, visited=been, carried=told, reference=reference
    )


def _known(state: SessionState, event: PhaseEntered) -> Reference | None:
    """Keep what the latest turn was about, unless it was answered in a phase that is hidden."""
    reference = state.reference
    answered = status_of(state, reference.turn) if reference and event.hidden else None
    return None if answered and answered.phase in event.hidden else reference
