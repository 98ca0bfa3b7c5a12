"""Rules for moving a session to another version of its blueprint.

A version changes only between turns, and with phases only before the first exchange of a phase, so
that one version runs a phase from beginning to end. Earlier turns and prompts stay as they are.
"""

from __future__ import annotations

from turnlog.events.errors import Refused
from turnlog.events.session import BlueprintMoved
from turnlog.projections.session.attempts import Events
from turnlog.projections.session.commands import MoveBlueprint
from turnlog.projections.session.phasing import still_open
from turnlog.projections.session.state import SessionState

MISFIT = "blueprint-does-not-fit"
"""Code of the refusal of a version that does not fit the session."""


def move(state: SessionState, command: MoveBlueprint) -> Events:
    """Move the session to the new version; nothing where it is built from that version already."""
    still_open(state)
    if not command.stale and _made_from(state, command):
        return ()
    _at_a_boundary(state)
    _has_its_profile(state, command)
    _has_its_phase(state, command)
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


def misfit(detail: str, field: str, fix: str) -> Refused:
    """Build the refusal of a version that does not fit the session."""
    return Refused(MISFIT, detail, field=field, fix=fix)


def _at_a_boundary(state: SessionState) -> None:
    if state.open is not None:
        detail = f"turn {state.open.turn} is not answered yet"
        raise Refused("turn-open", detail, fix="wait for it, or cancel it")
    if state.phase is not None and state.exchanges:
        raise Refused(
            "not-at-a-boundary",
            f"phase {state.phase} is under way, after {state.exchanges} exchanges",
            field="phase",
            fix="move it when it has entered its next phase",
        )


def _has_its_profile(state: SessionState, command: MoveBlueprint) -> None:
    if state.profile not in command.profiles:
        detail = f"the session runs by profile {state.profile!r}, which it has not"
        raise misfit(detail, "profile", "give the new version that profile")


def _has_its_phase(state: SessionState, command: MoveBlueprint) -> None:
    """Require the current phase in the new version, of the same kind as before.

    What happened on entering the phase depended on its kind.
    """
    graph = command.phases
    if graph is None and state.phase is not None:
        detail = f"the session is in phase {state.phase!r}, and it has no phases"
        raise misfit(detail, "phase", "give the new version phases")
    if graph is not None and state.phase is None:
        raise misfit("it has phases, and the session was opened without", "phase", "open another")
    if graph is None or state.phase is None:
        return
    there = graph.phases.get(state.phase)
    if there is None:
        detail = f"the session is in phase {state.phase!r}, which it has not"
        raise misfit(detail, "phase", f"keep {state.phase!r}, or move it in another phase")
    before = command.leaving.phases.get(state.phase) if command.leaving else None
    if before is not None and before.kind != there.kind:
        detail = f"phase {state.phase!r} is {before.kind}, and {there.kind} in it"
        raise misfit(detail, "phase", "move the session in another phase")


def _made_from(state: SessionState, command: MoveBlueprint) -> bool:
    return (state.blueprint, state.attributes, state.cartridge, state.memory) == (
        command.blueprint,
        command.attributes,
        command.cartridge,
        command.memory,
    )
