from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from turnlog.projections.session.references import InheritanceReason
from turnlog.services.gateway.payloads.closed import ResponseModel

JsonObject = dict[str, JsonValue]


class QuestionStatus(ResponseModel):
    """Whether a question could be answered."""

    reason: Literal["ok", "unroutable"]
    """The status for programs."""
    message: str
    """The status for people."""


class QuestionAnswer(ResponseModel):
    """The answer to a question, without the conversation around it."""

    status: QuestionStatus
    """Whether the question could be answered."""
    results: list[JsonValue] | JsonObject
    """The results that were found."""
    meta: JsonObject
    """Metadata about the results."""
    answer: str
    """The answer as text; empty for a question that could not be routed."""


class ReferencesView(ResponseModel):
    """What the latest answered turn of a session was about."""

    session: str
    """The session id."""
    sequence: int
    """The sequence that the response reflects."""
    last_reference: JsonObject | None
    """Its identifiers, with `intent`, `entity`, `updated_at` and `turn_index`; null before any."""


class ResolvedReferencesView(ResponseModel):
    """The references that a turn would have if it were submitted now."""

    session: str
    """The session id."""
    sequence: int
    """The sequence that the response reflects."""
    identifiers: JsonObject
    """The identifiers that the turn states, then those it would inherit."""
    used: bool
    """Whether any would be inherited."""
    reason: InheritanceReason
    """Why they would be inherited or not."""


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
    policy: JsonObject
    """The memory policy that the session is pinned to."""
    warnings: tuple[str, ...]
    """The faults of the policy file, for which defaults are used."""
    messages: tuple[JsonObject, ...]
    """`role`, `content`, `created_at` and `meta` of each message, oldest first."""
