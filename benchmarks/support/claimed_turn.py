"""A turn that a worker has claimed, for benchmarks of what the worker does with its answer."""

from __future__ import annotations

from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.testing import (
    claim_turn,
    get_open_turn,
    given,
    open_session,
    submit_turn,
)
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders
from turnlog.services.worker.turn_context import TurnContext, open_context


def build_claimed_turn() -> TurnContext:
    """Return the first turn of a session of the shipped assistant."""
    state = given(open_session(), submit_turn("Hi"), claim_turn("bench")).opened_state
    material = SessionMaterial(blueprint=BlueprintFolders().load_blueprint("assistant"))
    return open_context(state, get_open_turn(state), material)
