from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turnlog.projections.session.state import SessionState
from turnlog.projections.window.material import Material

OUT_OF_SIGHT: Final = "not for this phase"
"""The rule of what was said in a phase that the current phase may not show."""


@dataclass(frozen=True, slots=True)
class Sight:
    """The phases whose turns a prompt may show."""

    phases: frozenset[str] | None = None
    """None if all phases are visible."""

    def holds(self, phase: str | None) -> bool:
        """Return whether what was said in a phase may be shown."""
        return self.phases is None or phase in self.phases


def sight(material: Material, state: SessionState) -> Sight:
    """Return the phases that are visible from the session's current phase."""
    graph = material.phases
    return Sight(graph.sees(state.phase) if graph else None)
