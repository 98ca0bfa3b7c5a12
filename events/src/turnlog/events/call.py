"""Events of the call family: requests to a model, and every try of them.

A call is recorded once, with the manifest of its prompt; an attempt is one try of it. What an
attempt cost is recorded even when nobody wanted its text any more.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import JsonValue

from turnlog.events.content import Content, Digest
from turnlog.events.fact import Fact
from turnlog.events.manifest import Manifest
from turnlog.events.turn import Finish


class Usage(Fact):
    """Tokens of one attempt, and how far they can be trusted."""

    known: Literal["reported", "estimated", "unknown"]
    """By the provider, by our counter, or not at all; unknown is never zero."""
    input_tokens: int | None = None
    """Tokens sent, cached ones included."""
    output_tokens: int | None = None
    """Tokens received."""
    cached_tokens: int = 0
    """Of the tokens sent, those the provider had cached."""


class Cost(Fact):
    """Money of one attempt."""

    micro_dollars: int | None = None
    """Millionths of a dollar; none where the usage is unknown."""
    price: Literal["exact", "normalised", "fallback", "unknown"]
    """How the model was found in the price table."""
    table: str
    """Which price table, with its version."""


class Timings(Fact):
    """Durations by a monotonic clock, in milliseconds."""

    first_token: int | None = None
    """From request to first text."""
    total: int
    """From request to end."""


class Fault(Fact):
    """Why an attempt did not end well."""

    code: str
    """In one word, `rate_limited` for example."""
    detail: str
    """For people; never prompt text, never a secret."""
    retryable: bool
    """Whether another try may help."""


class AttemptStarted(Fact):
    """A worker has claimed the turn; whoever claimed it before is no longer heard."""

    type: ClassVar[str] = "turnlog.attempt-started.v1"
    leaf: ClassVar[str] = "call"

    turn: int
    """The turn."""
    call: str
    """The call it tries, `3.1` being turn 3, call 1."""
    attempt: int
    """1, 2, 3 ... within the turn, so that a higher one is always the later one."""
    worker: str
    """Who claimed it."""


class ContextAssembled(Fact):
    """The prompt of a call is fixed."""

    type: ClassVar[str] = "turnlog.context-assembled.v1"
    leaf: ClassVar[str] = "call"

    turn: int
    """The turn."""
    call: str
    """The call."""
    model: str
    """The model as litellm is told it."""
    parameters: dict[str, JsonValue]
    """Sampling parameters as litellm is told them."""
    manifest: Manifest
    """What stood in the prompt, and what did not."""
    supersedes: str | None = None
    """The call this one stands in for, when its sources had changed."""
    profile: str | None = None
    """The profile the session ran by; none in logs of a time when it never changed."""


class AttemptEnded(Fact):
    """An attempt is over; always legal, never part of a window."""

    type: ClassVar[str] = "turnlog.attempt-ended.v1"
    leaf: ClassVar[str] = "call"

    turn: int
    """The turn."""
    call: str
    """The call."""
    attempt: int
    """The attempt."""
    outcome: Literal["answered", "failed", "cancelled", "lost", "unasked"]
    """`lost` is said by others of a worker that went silent; its own word supersedes it. `unasked`
    is the end of a claim under which no model was asked."""
    usage: Usage
    """Tokens."""
    cost: Cost
    """Money."""
    timings: Timings | None = None
    """None where nobody was left to measure."""
    fault: Fault | None = None
    """Why it failed."""
    partial: Content | None = None
    """Text of an attempt that did not answer; kept, and kept out of windows."""


class CallCompleted(Fact):
    """A call has its answer."""

    type: ClassVar[str] = "turnlog.call-completed.v1"
    leaf: ClassVar[str] = "call"

    turn: int
    """The turn."""
    call: str
    """The call."""
    attempt: int
    """The attempt that answered."""
    finish: Finish
    """Why the model stopped."""
    digest: Digest
    """Digest of the text it answered."""
    characters: int
    """Length of that text in code points."""
    text: Content | None = None
    """The text, where the turn goes on from it; that of a reply stands in `turn-completed`."""
    repairs: tuple[str, ...] = ()
    """What had to be mended before the text could be read, where it is read by us."""
