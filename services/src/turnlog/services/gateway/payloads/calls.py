"""The responses about calls: attempts, usage and cost, tool results and token growth.

A null figure is unknown, not zero.
"""

from __future__ import annotations

from turnlog.events.content import Digest
from turnlog.events.turn import FinishReason
from turnlog.services.gateway.payloads.closed import ResponseModel


class AttemptView(ResponseModel):
    """One attempt of a call; a null figure is unknown, not zero."""

    attempt: int
    """The attempt number within the turn."""
    worker: str
    """The id of the worker."""
    started_at: str
    """When the attempt started."""
    ended_at: str | None
    """When the attempt ended."""
    outcome: str | None
    """How the attempt ended."""
    known: str | None
    """The source of the token figures: reported, estimated or unknown."""
    input_tokens: int | None
    """Tokens sent."""
    output_tokens: int | None
    """Tokens received."""
    cached_tokens: int | None
    """Tokens sent that the provider had cached."""
    micro_dollars: int | None
    """The cost in millionths of a dollar."""
    price: str | None
    """How the model was found in the price table."""
    first_token_ms: int | None
    """Milliseconds until the first text."""
    total_ms: int | None
    """Milliseconds until the end."""
    fault: str | None
    """Why the attempt failed."""


class CallView(ResponseModel):
    """A call with the totals of all its attempts."""

    call: str
    """The call id: `3.1` is turn 3, call 1."""
    turn: int
    """The turn number."""
    sequence: int
    """The sequence of the event that contains the manifest."""
    at: str
    """When the prompt was recorded."""
    kind: str
    """The blueprint's name for this kind of call."""
    model: str
    """The model."""
    supersedes: str | None
    """The call that this one replaces."""
    digest: Digest
    """The digest of the canonical request."""
    tokens: int
    """The tokens of the prompt, as counted by `counter`."""
    counter: str
    """The token counter."""
    budget: int | None
    """The token budget."""
    parts: int
    """The number of parts in the manifest."""
    profile: str | None
    """The profile of the call; null in records from before profiles could be switched."""
    savings: int
    """Tokens saved by shortening parts of the prompt; see `/v1/growth`."""
    attempt: int | None
    """The attempt that answered."""
    finish: FinishReason | None
    """Why the model stopped."""
    characters: int | None
    """The length of the answer."""
    known: str
    """The source of the figures: reported, estimated or unknown."""
    input_tokens: int | None
    """Tokens sent in all attempts."""
    output_tokens: int | None
    """Tokens received in all attempts."""
    micro_dollars: int | None
    """The cost of all attempts in millionths of a dollar."""
    attempts: tuple[AttemptView, ...]
    """All attempts."""


class CallList(ResponseModel):
    """All calls of a session."""

    models: tuple[str, ...] = ()
    """The distinct models, in the order of their first call."""
    profiles: tuple[str, ...] = ()
    """The distinct profiles of the calls."""

    session: str
    """The session id."""
    sequence: int
    """The last sequence that the read models contain."""
    calls: tuple[CallView, ...]
    """The calls in order."""
