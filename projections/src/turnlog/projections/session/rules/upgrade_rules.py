"""Rules for moving a session to another version of its blueprint.

A version changes only between turns, and with phases only before the first exchange of a phase, so
that one version runs a phase from beginning to end. Earlier turns and prompts stay as they are.
"""

from __future__ import annotations

from collections.abc import Container

from turnlog.events.errors import Refused
from turnlog.events.model.session_events import BlueprintMoved
from turnlog.projections.session.commands import MoveBlueprint
from turnlog.projections.session.rules.admission_rules import (
    require_no_open_turn,
    require_open_session,
)
from turnlog.projections.session.rules.attempt_events import NewEvents
from turnlog.projections.session.state import SessionState

MISFIT_CODE = "blueprint-does-not-fit"
"""Code of the refusal of a version that does not fit the session."""


def move_blueprint(state: SessionState, command: MoveBlueprint) -> NewEvents:
    """Move the session to the new version; nothing where it is built from that version already."""
    require_open_session(state)
    if not command.stale and _is_unchanged(state, command):
        return ()
    _require_phase_boundary(state)
    _require_profile(state, command)
    require_allowed_model(state.model, command.allowed_models)
    _require_phase(state, command)
    return (
        BlueprintMoved(
            before=state.blueprint,
            blueprint=command.blueprint,
            attributes=command.attributes,
            reach=command.reach,
            cartridge=command.cartridge,
            memory=command.memory,
            released=tuple(sorted(state.prompts)),
            warnings=command.warnings,
        ),
    )


def build_misfit(detail: str, field: str, fix: str) -> Refused:
    """Build the refusal of a version that does not fit the session."""
    return Refused(MISFIT_CODE, detail, field=field, fix=fix)


def _require_phase_boundary(state: SessionState) -> None:
    require_no_open_turn(state)
    if state.phase is not None and state.exchanges:
        raise Refused(
            "not-at-a-boundary",
            f"phase {state.phase} is under way, after {state.exchanges} exchanges",
            field="phase",
            fix="move the session when it has entered its next phase",
        )


def _require_profile(state: SessionState, command: MoveBlueprint) -> None:
    if state.profile not in command.profiles:
        detail = f"the session uses profile {state.profile!r}, which the new version does not have"
        raise build_misfit(detail, "profile", "give the new version that profile")


def require_allowed_model(model: str | None, allowed_models: Container[str]) -> None:
    """Refuse a version that does not allow the model to which the session was switched."""
    if model is not None and model not in allowed_models:
        detail = f"the session uses model {model!r}, which the new version does not allow"
        fix = "add it to the new version by `models: {allow: [...]}`, or switch the session first"
        raise build_misfit(detail, "model", fix)


def _require_phase(state: SessionState, command: MoveBlueprint) -> None:
    """Require the current phase in the new version, of the same kind as before.

    What happened on entering the phase depended on its kind.
    """
    graph = command.phases
    if graph is None and state.phase is not None:
        detail = f"the session is in phase {state.phase!r}, and it has no phases"
        raise build_misfit(detail, "phase", "give the new version phases")
    if graph is not None and state.phase is None:
        raise build_misfit(
            "it has phases, and the session was opened without", "phase", "open another"
        )
    if graph is None or state.phase is None:
        return
    new_phase = graph.phases.get(state.phase)
    if new_phase is None:
        detail = f"the session is in phase {state.phase!r}, which the new version does not have"
        raise build_misfit(detail, "phase", f"keep {state.phase!r}, or move it in another phase")
    before = command.current_phases.phases.get(state.phase) if command.current_phases else None
    if before is not None and before.kind != new_phase.kind:
        detail = f"phase {state.phase!r} is {before.kind}, and {new_phase.kind} in it"
        raise build_misfit(detail, "phase", "move the session in another phase")


def _is_unchanged(state: SessionState, command: MoveBlueprint) -> bool:
    return (state.blueprint, state.attributes, state.cartridge, state.memory) == (
        command.blueprint,
        command.attributes,
        command.cartridge,
        command.memory,
    )
