from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turnlog.projections.session.state import SessionState
from turnlog.projections.window.material import SessionMaterial

HIDDEN_PHASE: Final = "not for this phase"
"""The rule of what was said in a phase that the current phase may not show."""


@dataclass(frozen=True, slots=True)
class PhaseVisibility:
    """The phases whose turns a prompt may show."""

    phases: frozenset[str] | None = None
    """None if all phases are visible."""

    def can_show(self, phase: str | None) -> bool:
        """Return whether what was said in a phase may be shown."""
        return self.phases is None or phase in self.phases


def find_phase_visibility(material: SessionMaterial, state: SessionState) -> PhaseVisibility:
    """Return the phases that are visible from the session's current phase."""
    graph = material.phases
    return PhaseVisibility(graph.get_visible_phases(state.phase) if graph else None)
