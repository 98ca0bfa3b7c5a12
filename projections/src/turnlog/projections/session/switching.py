from __future__ import annotations

from turnlog.events.errors import Refused
from turnlog.events.session import ProfileSwitched
from turnlog.projections.blueprint.faults import suggest_word
from turnlog.projections.session.attempts import NewEvents
from turnlog.projections.session.phase_commands import SwitchProfile
from turnlog.projections.session.state import SessionState


def switch_profile(state: SessionState, command: SwitchProfile) -> NewEvents:
    """Switch to the profile and model a caller requests; nothing where they are in use already."""
    if state.closed:
        raise Refused("session-closed", "the session is closed", fix="open another session")
    if command.profile not in command.profiles:
        detail = f"there is no profile {command.profile[:80]!r}"
        fix = suggest_word(command.profile[:80], command.profiles)
        raise Refused("unknown-profile", detail, field="profile", fix=fix)
    if (state.profile, state.model) == (command.profile, command.model):
        return ()
    if state.open is not None:
        raise Refused("turn-open", f"turn {state.open.turn} is not answered yet", fix="wait for it")
    return (
        ProfileSwitched(
            profile=command.profile, before=state.profile, reason="asked", model=command.model
        ),
    )


def switch_profile_for_phase(state: SessionState, profile: str | None) -> NewEvents:
    """Switch to the profile that a phase names; this also drops a model chosen by the caller."""
    if profile is None or profile == state.profile:
        return ()
    return (ProfileSwitched(profile=profile, before=state.profile, reason="phase"),)
