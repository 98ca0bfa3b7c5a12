"""What is answered about calls: what was asked of models, how often, and what it took.

Null figures are unknown, never nothing.
"""

from __future__ import annotations

from turnlog.events.content import Digest
from turnlog.events.turn import Finish
from turnlog.services.gateway.payloads.closed import Answer


class AttemptView(Answer):
    """One try of a call; null figures are unknown, never nothing."""

    attempt: int
    """Its number within the turn."""
    worker: str
    """Who made it."""
    started_at: str
    """When."""
    ended_at: str | None
    """When it ended."""
    outcome: str | None
    """How."""
    known: str | None
    """How far the tokens can be trusted: reported, estimated or unknown."""
    input_tokens: int | None
    """Sent."""
    output_tokens: int | None
    """Received."""
    cached_tokens: int | None
    """Of those sent, cached by the provider."""
    micro_dollars: int | None
    """Millionths of a dollar."""
    price: str | None
    """How the model was found in the price table."""
    first_token_ms: int | None
    """To the first text."""
    total_ms: int | None
    """To the end."""
    fault: str | None
    """Why it failed."""


class CallView(Answer):
    """A call, with what all its attempts took."""

    call: str
    """Its id: `3.1` is turn 3, call 1."""
    turn: int
    """Its turn."""
    sequence: int
    """Of the event that holds its manifest."""
    at: str
    """When its prompt was fixed."""
    kind: str
    """The blueprint's name for this kind of call."""
    model: str
    """The model."""
    supersedes: str | None
    """The call it stands in for."""
    digest: Digest
    """Of the canonical request."""
    tokens: int
    """Of the prompt, by `counter`."""
    counter: str
    """Who counted."""
    budget: int | None
    """Tokens it was allowed."""
    parts: int
    """Parts of the manifest."""
    profile: str | None
    """The profile it was made by; null where the record is of a time when that never changed."""
    savings: int
    """Tokens it would have taken more, had nothing of it been shortened; see `/v1/growth`."""
    attempt: int | None
    """The attempt that answered."""
    finish: Finish | None
    """Why the model stopped."""
    characters: int | None
    """Length of the answer."""
    known: str
    """How far the figures can be trusted."""
    input_tokens: int | None
    """Sent in all attempts."""
    output_tokens: int | None
    """Received in all attempts."""
    micro_dollars: int | None
    """Millionths of a dollar for all attempts."""
    attempts: tuple[AttemptView, ...]
    """Every try."""


class CallList(Answer):
    """All calls of a session."""

    models: tuple[str, ...] = ()
    """The models that were asked, each once, in the order of their first call."""
    profiles: tuple[str, ...] = ()
    """The profiles they were asked by."""

    session: str
    """The session."""
    sequence: int
    """Up to which event, as far as the read models have come."""
    calls: tuple[CallView, ...]
    """In order."""
