"""Rules of conduct as an author writes them: what a session does when turns meet or fail."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from turnlog.projections.blueprint.asking import ReferencesSpec
from turnlog.projections.blueprint.memory import MemorySpec
from turnlog.projections.blueprint.safety import SafetySpec
from turnlog.projections.blueprint.strict import Strict


class Retries(Strict):
    """How often a failed attempt is tried again, and how long it waits."""

    max: Annotated[int, Field(ge=0)] = 4
    """Tries after the first one."""
    base_seconds: Annotated[float, Field(ge=0)] = 1.0
    """The wait is base * 2^n plus up to a second, or what the provider asks for."""
    cap_seconds: Annotated[float, Field(ge=0)] = 60.0
    """Longer than this is never waited."""


class Policies(Strict):
    """Rules of conduct."""

    second_submit: Literal["reject", "queue", "interrupt"] = "queue"
    """What a submit means while a turn is open."""
    queue_limit: Annotated[int, Field(ge=1)] = 100
    """How many turns may wait."""
    deadline_seconds: Annotated[float, Field(gt=0)] = 300.0
    """How long a turn may be open, from its release."""
    max_claims: Annotated[int, Field(ge=1)] = 10
    """How often workers may claim one turn before it fails."""
    replacement: Annotated[str, Field(min_length=1)] = "(This reply was withheld.)"
    """What stands for a redacted reply where nothing else is given."""
    retries: Retries = Retries()
    """Of failed attempts."""
    safety: SafetySpec = SafetySpec()
    """What may not be said."""
    memory: MemorySpec | None = None
    """What of the turns later ones are told; without it, everything."""
    references: ReferencesSpec | None = None
    """What a turn may mean without saying it."""
