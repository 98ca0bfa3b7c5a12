"""What is answered to a question, and about what a session remembers."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from turnlog.projections.session.references import Reason
from turnlog.services.gateway.payloads.closed import Answer

Values = dict[str, JsonValue]


class Status(Answer):
    """Whether a question led anywhere."""

    reason: Literal["ok", "unroutable"]
    """In one word."""
    message: str
    """The same for people."""


class Answered(Answer):
    """An answer; nothing of the conversation around it."""

    status: Status
    """Whether the question led anywhere."""
    results: list[JsonValue] | Values
    """What was found."""
    meta: Values
    """About the results."""
    answer: str
    """In words; empty for a question that led nowhere."""


class ReferencesView(Answer):
    """What a session's latest answered turn was about."""

    session: str
    """The session."""
    sequence: int
    """Up to which event."""
    last_reference: Values | None
    """Its identifiers, with `intent`, `entity`, `updated_at` and `turn_index`; null before any."""


class MeantView(Answer):
    """What a turn would mean, if it were put now."""

    session: str
    """The session."""
    sequence: int
    """Up to which event."""
    identifiers: Values
    """Those it says, then those it would inherit."""
    used: bool
    """Whether any would be inherited."""
    reason: Reason
    """Why, or why not."""


class MemoryView(Answer):
    """What a turn would be told of earlier ones, if it were put now."""

    session: str
    """The session."""
    sequence: int
    """Up to which event."""
    enabled: bool
    """Whether anything is remembered."""
    at: str
    """The clock reading by which messages are too old."""
    policy: Values
    """The memory policy the session is pinned to."""
    warnings: tuple[str, ...]
    """What was wrong with its file, and that the defaults stand in."""
    messages: tuple[Values, ...]
    """`role`, `content`, `created_at` and `meta` of each, oldest first."""
