"""Token events: a reply while it is generated, published on the TOKENS stream.

Tokens are not history. They are kept in memory for a short time; the reply event is the record. The
closing message of an attempt has the length and digest of the text, so that a turn whose worker
died can be completed from its tokens if all of them are still there.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from turnlog.events.content import Digest
from turnlog.events.event_model import EventModel
from turnlog.events.model.attempt_figures import SafetyRating, TokenUsage
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.turn_events import FinishReason


class Token(EventModel):
    """A piece of a reply."""

    kind: Literal["token"] = "token"
    call: str
    """The call id."""
    attempt: int
    """The attempt number; readers ignore attempts lower than the highest seen."""
    offset: int
    """Position of the piece in the reply, in code points."""
    text: str
    """The piece of text."""


class ReasoningPiece(EventModel):
    """A piece of what the model reasons, which is no part of the reply."""

    kind: Literal["reasoning"] = "reasoning"
    call: str
    """The call id."""
    attempt: int
    """The attempt number; readers ignore attempts lower than the highest seen."""
    offset: int
    """Position of the piece in the reasoning of the attempt, in code points."""
    text: str
    """The piece of text."""


WorkerActivity = Literal["summarise", "query", "plan", "act", "tool", "reply", "think"]
"""What a worker is doing: a call of the turn, a tool that a call requested, or waiting for a model
that has said nothing yet.
"""


class AttemptAlive(EventModel):
    """Heartbeat: the worker of this attempt is running; readers see a keep-alive."""

    kind: Literal["attempt-alive"] = "attempt-alive"
    call: str
    """The call id."""
    attempt: int
    """The attempt number."""
    doing: WorkerActivity | None = None
    """The activity that begins now, in a turn of several calls; `think` is repeated while the model
    of the reply is silent.
    """
    tool: str | None = None
    """The tool that is being run."""


class AttemptReset(EventModel):
    """Text of earlier attempts is void; this attempt begins at offset 0."""

    kind: Literal["attempt-reset"] = "attempt-reset"
    call: str
    """The call id."""
    attempt: int
    """The attempt number that begins."""


class AttemptAbandoned(EventModel):
    """The worker does nothing more for this attempt, and could not record how it ended.

    Another attempt may begin at once.
    """

    kind: Literal["attempt-abandoned"] = "attempt-abandoned"
    call: str
    """The call id."""
    attempt: int
    """The attempt number."""


class ToolRequest(EventModel):
    """A tool call that an answer requested."""

    id: str
    """The provider's id of this request."""
    tool: str
    """The name of the requested tool."""
    arguments: str
    """Its arguments as the model wrote them."""
    signature: str | None = None
    """What the provider sent beside the call and wants back with it, as a JSON object."""


class AttemptClosed(EventModel):
    """The last message of an attempt: length and digest of its whole text.

    It is published for an answer that may be shown. A withheld answer has none.
    """

    kind: Literal["attempt-closed"] = "attempt-closed"
    call: str
    """The call id."""
    attempt: int
    """The attempt number."""
    length: int
    """Length of the whole text in code points."""
    digest: Digest
    """Digest of the whole text."""
    finish: FinishReason
    """Why the model stopped."""
    usage: TokenUsage
    """Token usage of the attempt."""
    first_token: int | None = None
    """Milliseconds from request to first text."""
    total: int
    """Milliseconds from request to end."""
    tools: tuple[ToolRequest, ...] = ()
    """Tools that the answer requested."""
    response_id: str | None = None
    """The provider's id of the answer; None if it gave none."""
    ratings: tuple[SafetyRating, ...] = ()
    """The provider's ratings of an answer that its filter cut."""
    finish_sent: str | None = None
    """Why the model stopped in the provider's words, where that is none that we know."""
    reasoning: str | None = None
    """What the model reasoned, as it is recorded; None if it sent nothing of it."""
    parts: tuple[MediaPart, ...] = ()
    """The pictures, recordings and files of the answer, whose text has a line for each."""


TokenEvent = Annotated[
    Token | ReasoningPiece | AttemptAlive | AttemptReset | AttemptAbandoned | AttemptClosed,
    Field(discriminator="kind"),
]
TOKEN_EVENT: TypeAdapter[TokenEvent] = TypeAdapter(TokenEvent)
"""Type adapter that encodes and decodes token events as JSON."""
