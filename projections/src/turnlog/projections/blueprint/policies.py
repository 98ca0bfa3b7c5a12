from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from turnlog.projections.blueprint.asking import ReferencesSpec
from turnlog.projections.blueprint.memory import MemoryFileSpec
from turnlog.projections.blueprint.safety import SafetySpec
from turnlog.projections.blueprint.strict import StrictModel


class RetryPolicy(StrictModel):
    """How often a failed attempt is retried, and after which delay."""

    max: Annotated[int, Field(ge=0)] = 4
    """Maximum number of retries."""
    base_seconds: Annotated[float, Field(ge=0)] = 1.0
    """The delay is base * 2^n plus up to a second, unless the provider requests another."""
    cap_seconds: Annotated[float, Field(ge=0)] = 60.0
    """Maximum delay in seconds."""


class Policies(StrictModel):
    """How a session handles overlapping, slow and failing turns."""

    second_submit: Literal["reject", "queue", "interrupt"] = "queue"
    """What happens to a submit while a turn is open."""
    queue_limit: Annotated[int, Field(ge=1)] = 100
    """Maximum number of queued turns."""
    deadline_seconds: Annotated[float, Field(gt=0)] = 300.0
    """How long a turn may be open after its release, in seconds."""
    max_claims: Annotated[int, Field(ge=1)] = 10
    """How often workers may claim one turn before it fails."""
    replacement: Annotated[str, Field(min_length=1)] = "(This reply was withheld.)"
    """The default text in place of a redacted reply."""
    retries: RetryPolicy = RetryPolicy()
    """Retries of failed attempts."""
    safety: SafetySpec = SafetySpec()
    """Safety rules for replies."""
    memory: MemoryFileSpec | None = None
    """The memory policy for later turns; without it they may include everything."""
    references: ReferencesSpec | None = None
    """References that a turn may inherit from an earlier one."""
