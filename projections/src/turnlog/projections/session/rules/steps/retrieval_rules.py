"""Rules for retrievals: each is recorded once a turn.

A retrieval is recorded under the claim of the attempt that made it, before the call that uses it.
An attempt that takes the turn over finds it there and does not search again.
"""

from __future__ import annotations

from turnlog.projections.session.commands import RecordRetrieval
from turnlog.projections.session.open_turn import OpenTurn, TurnRetrieval
from turnlog.projections.session.rules.attempt_events import NewEvents, find_claimed_turn
from turnlog.projections.session.state import SessionState


def find_retrieval(opened: OpenTurn | None, name: str) -> TurnRetrieval | None:
    """Return the retrieval that a turn has made under this name, or None."""
    made = opened.retrievals if opened else ()
    return next((each for each in made if each.retrieval == name), None)


def record_retrieval(state: SessionState, command: RecordRetrieval) -> NewEvents:
    """Record a retrieval, once for each name; nothing where the claim is lost."""
    opened, retrieved = find_claimed_turn(state, command.attempt), command.retrieved
    if opened is None or find_retrieval(opened, retrieved.retrieval):
        return ()
    return (retrieved,)
