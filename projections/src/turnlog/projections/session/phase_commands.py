"""Commands that lead a session on: to another phase, or to another way to run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from turnlog.projections.blueprint.phases import PhaseGraph


@dataclass(frozen=True, slots=True)
class RecordChoice:
    """Choose in a phase that offers choices."""

    choice: str
    phases: PhaseGraph


@dataclass(frozen=True, slots=True)
class SendSignal:
    """End the phase by a signal it offers, without a model."""

    signal: str
    phases: PhaseGraph


@dataclass(frozen=True, slots=True)
class EnterPhase:
    """Move to a phase by name, and tell it something of the one left."""

    phase: str
    phases: PhaseGraph
    carry: str | None = None


@dataclass(frozen=True, slots=True)
class SwitchProfile:
    """Let the session run by another profile, or by another model."""

    profile: str
    profiles: Collection[str]
    """Those there are."""
    model: str | None = None
    """What is to answer; none for the profile's own."""
