from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from turnlog.projections.blueprint.phases import PhaseGraph


@dataclass(frozen=True, slots=True)
class RecordChoice:
    """Make a choice in a phase that offers choices."""

    choice: str
    phases: PhaseGraph


@dataclass(frozen=True, slots=True)
class SendSignal:
    """End the phase with a signal it offers, without a model."""

    signal: str
    phases: PhaseGraph


@dataclass(frozen=True, slots=True)
class EnterPhase:
    """Move to a phase by name, and optionally carry a text over to it."""

    phase: str
    phases: PhaseGraph
    carry: str | None = None


@dataclass(frozen=True, slots=True)
class SwitchProfile:
    """Switch the session to another profile or another model."""

    profile: str
    profiles: Collection[str]
    """Profiles of the blueprint."""
    model: str | None = None
    """The model to use, or None for the profile's own."""
