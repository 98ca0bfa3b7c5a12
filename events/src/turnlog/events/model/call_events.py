"""Events of the call family: model calls and their attempts.

A call is recorded once, with the manifest of its prompt. An attempt is one try at it. The cost of
an attempt is recorded even if its text is no longer needed.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import JsonValue

from turnlog.events.content import Content, Digest
from turnlog.events.event_model import EventModel
from turnlog.events.model.manifest import Manifest
from turnlog.events.model.turn_events import FinishReason


class TokenUsage(EventModel):
    """Token usage of one attempt, and how reliable the figures are."""

    known: Literal["reported", "estimated", "unknown"]
    """Reported by the provider, estimated by our counter, or unknown; unknown is not zero."""
    input_tokens: int | None = None
    """Tokens sent, including cached ones."""
    output_tokens: int | None = None
    """Tokens received."""
    cached_tokens: int = 0
    """Tokens of the input that the provider had cached."""
    reasoning_tokens: int | None = None
    """Tokens of the output that went into reasoning, as litellm reports them; None if it reports
    none. It estimates them for a provider that sends reasoning without a count.
    """


class AttemptCost(EventModel):
    """Cost of one attempt."""

    micro_dollars: int | None = None
    """Millionths of a dollar; None if the usage is unknown."""
    price: Literal["exact", "normalised", "fallback", "unknown"]
    """How the model was found in the price table."""
    table: str
    """The price table and its version."""


class AttemptTimings(EventModel):
    """Durations in milliseconds, measured with a monotonic clock."""

    first_token: int | None = None
    """From request to first text."""
    total: int
    """From request to end."""


class AttemptFault(EventModel):
    """Why an attempt failed."""

    code: str
    """A code, for example `rate_limited`."""
    detail: str
    """The reason for people; it contains no prompt text and no secret."""
    retryable: bool
    """Whether another attempt may succeed."""


class SafetyRating(EventModel):
    """How a provider rated a text that one of its filters cut, in the provider's words."""

    category: str
    """What was looked for: `HARM_CATEGORY_HARASSMENT`."""
    probability: str | None = None
    """How likely it is found: `HIGH`."""
    severity: str | None = None
    """How severe it is; None if the provider does not say."""
    blocked: bool = False
    """Whether this rating cut the text."""


class AttemptStarted(EventModel):
    """A worker claimed the turn; events of earlier claims are refused from now on.

    The claim is a lease, and the attempt number is its fencing token.
    """

    type: ClassVar[str] = "turnlog.attempt-started.v1"
    leaf: ClassVar[str] = "call"

    turn: int
    """The turn number."""
    call: str
    """The call id; `3.1` is call 1 of turn 3."""
    attempt: int
    """Attempt number within the turn, from 1; a higher number is always the later attempt."""
    worker: str
    """The worker that claimed the turn."""


class ContextAssembled(EventModel):
    """The prompt of a call is fixed."""

    type: ClassVar[str] = "turnlog.context-assembled.v1"
    leaf: ClassVar[str] = "call"

    turn: int
    """The turn number."""
    call: str
    """The call id."""
    model: str
    """The model name as passed to litellm."""
    parameters: dict[str, JsonValue]
    """Sampling parameters as passed to litellm."""
    manifest: Manifest
    """What the prompt includes and what was left out."""
    supersedes: str | None = None
    """The call that this one replaces because its sources had changed."""
    profile: str | None = None
    """The session's profile; None in old logs, whose sessions never switched profile."""
    body_digest: Digest | None = None
    """Digest of the body that the model's server is sent, byte for byte; None where litellm writes
    the body, as in old logs.
    """


AttemptResult = Literal["answered", "failed", "cancelled", "lost", "unasked"]


class AttemptEnded(EventModel):
    """An attempt ended; always accepted, never part of a window."""

    type: ClassVar[str] = "turnlog.attempt-ended.v1"
    leaf: ClassVar[str] = "call"

    turn: int
    """The turn number."""
    call: str
    """The call id."""
    attempt: int
    """The attempt number."""
    outcome: AttemptResult
    """`lost` is recorded by another process for a worker that stopped sending heartbeats; a later
    event of that worker replaces it. `unasked` ends a claim under which no model was called.
    """
    usage: TokenUsage
    """Token usage."""
    cost: AttemptCost
    """Cost."""
    timings: AttemptTimings | None = None
    """Durations; None if no process measured them."""
    fault: AttemptFault | None = None
    """Why the attempt failed."""
    partial: Content | None = None
    """Text of an attempt that did not complete; it is stored but never included in windows."""
    response_id: str | None = None
    """The provider's id of the finished answer; None if it gave none."""
    ratings: tuple[SafetyRating, ...] = ()
    """The provider's ratings of an answer that its filter cut; empty if it gave none."""


class CallCompleted(EventModel):
    """A call has an answer."""

    type: ClassVar[str] = "turnlog.call-completed.v1"
    leaf: ClassVar[str] = "call"

    turn: int
    """The turn number."""
    call: str
    """The call id."""
    attempt: int
    """The attempt that answered."""
    finish: FinishReason
    """Why the model stopped."""
    digest: Digest
    """Digest of the answer's text."""
    characters: int
    """Length of that text in code points."""
    text: Content | None = None
    """The text, if the turn continues from it; the text of a reply is in `turn-completed`."""
    repairs: tuple[str, ...] = ()
    """Repairs made before the text could be parsed."""
