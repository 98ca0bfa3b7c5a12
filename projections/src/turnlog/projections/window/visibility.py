"""Visibility: which phases a prompt may tell of, where a blueprint keeps them apart.

What was said while the session was in a phase is of that phase. A prompt tells of it if the phase
that the session is in now may see that one, and otherwise as if it had never been.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turnlog.projections.session.state import SessionState
from turnlog.projections.window.material import Material

OUT_OF_SIGHT: Final = "not for this phase"
"""Why something is left out that was said in a phase which this one may not see."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What may be seen now."""

    phases: frozenset[str] | None = None
    """None where everything may."""

    def holds(self, phase: str | None) -> bool:
        """Tell whether what was said in a phase may be seen."""
        return self.phases is None or phase in self.phases


def sight(material: Material, state: SessionState) -> Sight:
    """Say what the session may see in its phase."""
    graph = material.phases
    return Sight(graph.sees(state.phase) if graph else None)
