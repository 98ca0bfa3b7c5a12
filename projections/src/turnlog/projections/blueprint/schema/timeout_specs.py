"""How long a call may wait for its model, as a blueprint, a profile or an operator says it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from turnlog.projections.blueprint.schema.strict_model import StrictModel

Timeout = Annotated[float, Field(gt=0, le=86_400)] | None
"""Seconds, a day at most; None if something less specific decides."""


class TimeoutSpec(StrictModel):
    """Timeouts of a call; what is not given is as the less specific one has it.

    The most specific one is that of the profile, then that of the policies, then the operator's for
    the model (`TURNLOG_MODEL_TIMEOUTS`), then the default.
    """

    connect: Timeout = None
    """Until the server accepts the connection."""
    first_token: Timeout = None
    """Silence before the first text, tool call or reasoning."""
    between_tokens: Timeout = None
    """Silence between two of those."""
    total: Timeout = None
    """The whole call. A turn may have several, within its `deadline_seconds`."""

    def merge_over(self, other: TimeoutSpec) -> TimeoutSpec:
        """Return these timeouts, with those of a less specific one where none is given."""
        return other.model_copy(update=self.model_dump(exclude_none=True))
