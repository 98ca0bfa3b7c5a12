"""The data of the server-sent events that are no stored events.

A turn stream sends these alone. A stream of stored events sends the events as the log has them, and
`UnreadablePayload` where it cannot.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from turnlog.contract.value_names import ApprovalDecision, ChildOutcome, FinishReason, MediaKind

WorkerActivity = Literal["summarise", "query", "plan", "act", "tool", "reply", "think"]
"""What a worker is doing: a call of the turn, a tool that a call requested, or waiting for a model
that has said nothing yet.
"""


ChildActivity = Literal["started", "tool", "text", "ended"]
"""What a child does: a call without text yet, a tool, an answer; or its parent does not wait."""


class StreamPayload(BaseModel):
    """The data of one kind of server-sent event, whose name each class has as `event`."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class TokenPayload(StreamPayload):
    """A piece of the reply, at most 512 code points long; it continues the pieces before it."""

    event: ClassVar[Literal["token"]] = "token"

    text: str
    """The piece of text."""


class ReasoningPayload(StreamPayload):
    """A piece of what the model reasons, which is no part of the reply.

    It is sent to a client that asks for it. Each attempt has its own, which no `attempt-reset`
    makes void: it is recorded with the attempt.
    """

    event: ClassVar[Literal["reasoning"]] = "reasoning"

    call: str
    """The call id."""
    attempt: int
    """The attempt that it belongs to."""
    offset: int
    """Where the piece begins in the reasoning of the attempt, in code points."""
    text: str
    """The piece of text."""


class AttemptResetPayload(StreamPayload):
    """The text of all earlier tokens is void; the reply begins again."""

    event: ClassVar[Literal["attempt-reset"]] = "attempt-reset"

    attempt: int
    """The attempt that begins."""


class ProgressPayload(StreamPayload):
    """What a turn of several calls is doing before its reply begins."""

    event: ClassVar[Literal["progress"]] = "progress"

    call: str
    """The call id."""
    doing: WorkerActivity
    """The activity that begins now."""
    tool: str | None = Field(default=None, exclude_if=lambda tool: not tool)
    """The tool that is being run; absent if none is."""


class PartPayload(StreamPayload):
    """A picture, a recording or a file of the reply; `/v1/blobs/{digest}` has its bytes.

    It is sent once the reply is recorded, before `done`, and again to a client that reconnects
    between the two. The text of the reply has a line for it, at `at`.
    """

    event: ClassVar[Literal["part"]] = "part"

    kind: MediaKind
    """What it is."""
    digest: str
    """SHA-256 of its bytes."""
    size: int
    """Number of bytes."""
    media_type: str
    """Its type, such as `image/png`."""
    name: str | None = Field(default=None, exclude_if=lambda name: name is None)
    """The name of the file; absent if it has none."""
    at: int
    """Where its line stands in the text of the reply, in code points."""


class ApprovalPayload(StreamPayload):
    """A tool that waits for a person's approval, or for which it was decided.

    It is sent when the tool begins to wait, again to a client that connects meanwhile, and at the
    decision.
    """

    event: ClassVar[Literal["approval"]] = "approval"

    session: str
    """The session in which it is decided: that of the turn, or one of its child sessions."""
    turn: int
    """The number of the turn in that session."""
    approval: int
    """The number of the approval within the turn."""
    call: str
    """The call whose answer requested the tool."""
    id: str
    """The provider's id of the tool request."""
    tool: str
    """The name of the tool."""
    arguments: str
    """Its arguments as the model wrote them."""
    digest: str
    """The digest of `arguments`; a decision names it as `shown`."""
    deadline: str
    """Without a decision by then the tool is refused."""
    decision: ApprovalDecision | None
    """What was decided; null while the tool waits."""


class ChildPayload(StreamPayload):
    """What a child of a coordinator's turn is doing; nothing of what it reads or writes.

    It is sent when the child begins something else, at most once a second while it writes, and
    again to a client that connects meanwhile. It is a hint: steps that pass quickly may be left
    out.
    """

    event: ClassVar[Literal["child"]] = "child"

    session: str
    """The child session."""
    turn: int
    """The number of the turn in the child session."""
    parent: str
    """The session that asked for it: that of the stream, or another child of it."""
    profile: str
    """The profile of the child."""
    call: str
    """The call of the parent whose answer asked for it."""
    doing: ChildActivity
    """The present activity."""
    tool: str | None = Field(default=None, exclude_if=lambda tool: not tool)
    """The tool that it runs; absent if it runs none."""
    characters: int | None = Field(default=None, exclude_if=lambda characters: characters is None)
    """How many code points of its answer were written; absent unless it writes."""
    outcome: ChildOutcome | None = Field(default=None, exclude_if=lambda outcome: not outcome)
    """What came of it; absent until it ended."""


class SafetyRatingPayload(BaseModel):
    """How a provider rated a text that one of its filters cut, in the provider's words."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    category: str
    """What was looked for: `HARM_CATEGORY_HARASSMENT`."""
    probability: str | None = Field(default=None, exclude_if=lambda probability: not probability)
    """How likely it is found: `HIGH`."""
    severity: str | None = Field(default=None, exclude_if=lambda severity: not severity)
    """How severe it is; absent if the provider does not say."""
    blocked: bool = Field(default=False, exclude_if=lambda blocked: not blocked)
    """Whether this rating cut the text."""


class DonePayload(StreamPayload):
    """What every `done` has: how the model ended the reply, and the reply as a value."""

    event: ClassVar[Literal["done"]] = "done"

    finish: FinishReason | None
    """Why the model stopped; `length` means that the reply was cut off. Null without a model."""
    ratings: tuple[SafetyRatingPayload, ...] = Field(
        default=(), exclude_if=lambda ratings: not ratings
    )
    """The provider's ratings of a reply that its filter cut; absent if it gave none."""
    output: JsonValue = Field(default=None, exclude_if=lambda output: output is None)
    """The reply as the value that it is; absent without a schema of its call."""


class ReplyDonePayload(DonePayload):
    """The reply is complete and recorded, in a session without phases or outside them."""

    turn: int
    """The turn number."""
    fallback: str | None = Field(default=None, exclude_if=lambda fallback: fallback is None)
    """Why the reply is a fallback; absent when a model wrote it."""
    sequence: int
    """The sequence of the event that holds the reply."""


class ExchangeDonePayload(DonePayload):
    """The reply is complete and recorded, in a phase of kind `freeform`."""

    phase_transition: str | None
    """The signal that ended the phase with this turn; null if the phase goes on."""
    next_phase: str | None
    """The next phase; null if the phase goes on."""
    exchanges_count: int
    """The number of exchanges in the phase so far, including this one."""


class DebriefDonePayload(DonePayload):
    """The reply is complete and recorded, in a phase of kind `debrief`."""

    debrief_complete: Literal[True]
    """Always true."""


class ReplyFailedPayload(StreamPayload):
    """The turn ended without a reply."""

    event: ClassVar[Literal["failed"]] = "failed"

    code: str
    """The code of the failure."""
    retryable: bool
    """Whether submitting the turn again may succeed."""
    partial: str
    """The beginning of what was written of the reply, at most 512 code points; it may be empty."""


class ReplyCancelledPayload(StreamPayload):
    """The turn was cancelled."""

    event: ClassVar[Literal["cancelled"]] = "cancelled"

    reason: Literal["cancelled", "interrupted", "closed", "phase-left"]
    """By request, by a later turn, because the session closed, or because it left the phase in
    which the turn was waiting.
    """


class ReplyRedactedPayload(StreamPayload):
    """The reply is withheld; discard what was received of it, and show the replacement."""

    event: ClassVar[Literal["redact"]] = "redact"

    reason: str
    """The reason for people."""
    replacement: str
    """The text used instead; empty if it is no longer readable."""


class StreamedTokenPayload(StreamPayload):
    """A piece of a reply in a stream of events, for who asks for tokens; it is no stored event.

    The event that ends the turn has the whole reply.
    """

    event: ClassVar[Literal["token"]] = "token"

    session: str
    """The session."""
    turn: int
    """The turn number."""
    call: str
    """The call id."""
    attempt: int
    """The attempt that it belongs to."""
    offset: int
    """Where the piece begins in the text of the attempt, in code points."""
    text: str
    """The piece of text."""


class StreamedResetPayload(StreamPayload):
    """The text of a turn's earlier tokens is void; the reply begins again."""

    event: ClassVar[Literal["attempt-reset"]] = "attempt-reset"

    session: str
    """The session."""
    turn: int
    """The turn number."""
    call: str
    """The call id."""
    attempt: int
    """The attempt that begins."""


StreamedPiece = StreamedTokenPayload | StreamedResetPayload
"""What comes of replies between the events of a stream."""


class UnreadablePayload(StreamPayload):
    """An event of the log that cannot be read: it is lost, or its bytes are not an event."""

    event: ClassVar[Literal["unreadable"]] = "unreadable"

    subject: str
    """Where the fault is."""
    detail: str
    """What is wrong, for people."""


TurnEndPayload = (
    ReplyDonePayload
    | ExchangeDonePayload
    | DebriefDonePayload
    | ReplyFailedPayload
    | ReplyCancelledPayload
    | ReplyRedactedPayload
)
"""The data of the last event of a turn stream."""

TurnStreamPayload = (
    TokenPayload
    | ReasoningPayload
    | AttemptResetPayload
    | ProgressPayload
    | PartPayload
    | ApprovalPayload
    | ChildPayload
    | TurnEndPayload
)
"""The data of any event of a turn stream."""
