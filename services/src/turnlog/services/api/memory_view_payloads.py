"""The response about remembered messages, with the policy by which they are remembered.

It contains the policy as the blueprint's own model has it, so it is no part of the contract.
"""

from __future__ import annotations

from typing import Literal

from turnlog.contract.payload_models import ResponseModel
from turnlog.contract.value_names import TurnRole
from turnlog.projections.blueprint.schema.history_specs import MemoryPolicy


class MemoryMessageMeta(ResponseModel):
    """The turn that a remembered message belongs to."""

    turn: int
    """The turn number."""
    request_id: str
    """The id of the event that submitted the turn."""
    intent: str | None
    """The intent that the resolver recognised."""
    entity: str | None
    """The kind of entity that the resolver recognised."""


class MemoryMessageView(ResponseModel):
    """A remembered message."""

    role: TurnRole | Literal["assistant"]
    """Whose message it is."""
    content: str
    """The text; empty for the reply to a turn that no reply was found for."""
    created_at: str
    """When it was recorded, RFC 3339."""
    meta: MemoryMessageMeta
    """Its turn."""


class MemoryView(ResponseModel):
    """The earlier messages that a turn would be given if it were submitted now."""

    session: str
    """The session id."""
    sequence: int
    """The sequence that the response reflects."""
    enabled: bool
    """Whether the session has memory."""
    at: str
    """The clock reading that decides which messages are too old."""
    policy: MemoryPolicy
    """The memory policy that the session is pinned to."""
    warnings: tuple[str, ...]
    """The faults of the policy file, for which defaults are used."""
    messages: tuple[MemoryMessageView, ...]
    """The messages, oldest first."""
