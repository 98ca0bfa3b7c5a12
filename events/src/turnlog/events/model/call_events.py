"""Events of the call family: model calls and their attempts.

A call is recorded once, with the manifest of its prompt. An attempt is one try at it. The cost of
an attempt is recorded even if its text is no longer needed.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from pydantic import JsonValue

from turnlog.events.content import Content, WordDigest, Words
from turnlog.events.event_model import EventModel, ReplyTextEvent
from turnlog.events.model.attempt_figures import (
    AttemptCost,
    AttemptTimings,
    AttemptUsage,
    SafetyRating,
    TokenUsage,
    build_figures_sentence,
)
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.manifest import Manifest
from turnlog.events.model.turn_events import FinishReason, ReplyAnswer, TurnCompleted


class ContextOverflow(EventModel):
    """What the provider's refusal of a prompt as too long for its model names in tokens."""

    tokens: int | None = None
    """The tokens of the prompt by the provider's count; None if it names none."""
    limit: int | None = None
    """Most tokens that the prompt may have: those of the model, less what the request keeps for the
    answer where the provider counts that. None if it names none.
    """


class AttemptFault(EventModel):
    """Why an attempt failed."""

    code: str
    """A code, for example `rate_limited`."""
    detail: str
    """The reason for people; it contains no prompt text and no secret."""
    retryable: bool
    """Whether another attempt may succeed."""
    overflow: ContextOverflow | None = None
    """The numbers of a `context_overflow`; None where the provider named none, as in old logs."""


class AttemptStarted(EventModel):
    """A worker claimed the turn; events of earlier claims are refused from now on.

    The claim is a lease, and the attempt number is its fencing token.
    """

    type: ClassVar[str] = "turnlog.attempt-started.v1"
    leaf: ClassVar[str] = "call"
    sentence: ClassVar[str] = "call {call} · attempt {attempt} · {worker}"

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
    sentence: ClassVar[str] = (
        "call {call} · {model} · {manifest.tokens|count:token} in "
        "{manifest.parts|included|count:part} · {manifest.digest|digest}"
    )

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
    """The call that this one replaces because its sources had changed, its answer was rejected, or
    the provider refused it as too long.
    """
    profile: str | None = None
    """The session's profile; None in old logs, whose sessions never switched profile."""
    body_digest: WordDigest | None = None
    """Digest of the body that the model's server is sent, byte for byte; None where litellm writes
    the body, as in old logs.
    """


AttemptResult = Literal["answered", "failed", "cancelled", "lost", "unasked"]


class AttemptEnded(ReplyTextEvent):
    """An attempt ended; always accepted, and part of no window but that of the next attempt.

    The end of an attempt that answered is part of the event that records its answer,
    `call-completed` or `turn-completed`. In logs of earlier releases it is an event like this one.
    """

    type: ClassVar[str] = "turnlog.attempt-ended.v1"
    leaf: ClassVar[str] = "call"
    sentence: ClassVar[str] = "call {call} · {outcome}[ ({fault.code})]" + build_figures_sentence(
        ""
    )
    reply_texts: ClassVar[tuple[str, ...]] = ("partial", "rejected", "correction", "reasoning")

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
    finish_sent: str | None = None
    """Why the model stopped in the provider's words, where that is none that we know."""
    rejected: Content | None = None
    """The whole answer where it did not have the required form."""
    correction: Words = ""
    """What the next attempt is told about the rejected answer; empty if it is told nothing."""
    reasoning: Content | None = None
    """What the model reasoned until then, as in `call-completed`; None if nothing of it came."""
    parts: tuple[MediaPart, ...] = ()
    """The pictures, recordings and files of `partial`, which has a line for each."""


class CallCompleted(EventModel):
    """A call has an answer, and the attempt that gave it has ended.

    The answer that is a turn's reply is recorded by `turn-completed` alone, unless other events
    come between the two. In logs of earlier releases every answer has this event.
    """

    type: ClassVar[str] = "turnlog.call-completed.v1"
    leaf: ClassVar[str] = "call"
    sentence: ClassVar[str] = (
        "call {call} · {finish} · {characters|count:character}" + build_figures_sentence("spent.")
    )

    turn: int
    """The turn number."""
    call: str
    """The call id."""
    attempt: int
    """The attempt that answered."""
    finish: FinishReason
    """Why the model stopped."""
    digest: WordDigest
    """Digest of the answer's text."""
    characters: int
    """Length of that text in code points."""
    text: Content | None = None
    """The text, if the turn continues from it; the text of a reply is in `turn-completed`."""
    repairs: tuple[str, ...] = ()
    """Repairs made before the text could be parsed."""
    spent: AttemptUsage | None = None
    """What the attempt used, cost and took; None in logs of earlier releases, where
    `attempt-ended` comes before this event.
    """
    reasoning: Content | None = None
    """What the model reasoned before and between its text: a JSON object of the fields in which its
    provider sent it. None if it sent nothing of it.
    """
    parts: tuple[MediaPart, ...] = ()
    """The pictures, recordings and files of the answer, whose text has a line for each; empty if
    they are those of a reply, which `turn-completed` has.
    """


ATTEMPT_END_TYPES: Final = (AttemptEnded, CallCompleted, TurnCompleted)
"""The events that can end an attempt."""

CALL_ANSWER_TYPES: Final = (CallCompleted, TurnCompleted)
"""The events that can record the answer of a call."""


def find_attempt_end(event: object) -> AttemptEnded | None:
    """Return how an event ended an attempt, as the event that does only this; None if it did not.

    Every reader of attempts asks here, since the end may be a part of a larger event.
    """
    match event:
        case AttemptEnded():
            return event
        case CallCompleted(spent=AttemptUsage() as spent):
            return _build_answered_end(
                event=event,
                call=event.call,
                attempt=event.attempt,
                spent=spent,
                reasoning=event.reasoning,
            )
        case TurnCompleted(answer=ReplyAnswer() as answer, call=str(call)):
            return _build_answered_end(
                event=event,
                call=call,
                attempt=answer.attempt,
                spent=answer.spent,
                reasoning=answer.reasoning,
            )
        case _:
            return None


def _build_answered_end(
    event: CallCompleted | TurnCompleted,
    call: str,
    attempt: int,
    spent: AttemptUsage,
    reasoning: Content | None,
) -> AttemptEnded:
    return AttemptEnded(
        turn=event.turn,
        call=call,
        attempt=attempt,
        outcome="answered",
        usage=spent.usage,
        cost=spent.cost,
        timings=spent.timings,
        response_id=spent.response_id,
        ratings=spent.ratings,
        finish_sent=spent.finish_sent,
        reasoning=reasoning,
    )


def find_call_answer(event: object) -> CallCompleted | None:
    """Return the answer of a call that an event records, as the event that does only this."""
    match event:
        case CallCompleted():
            return event
        case TurnCompleted(answer=ReplyAnswer() as answer, call=str(call), finish=finish) if finish:
            text = answer.text or event.text
            return CallCompleted(
                turn=event.turn,
                call=call,
                attempt=answer.attempt,
                finish=finish,
                digest=text.digest,
                characters=text.characters,
                text=answer.text,
                repairs=answer.repairs,
                spent=answer.spent,
                reasoning=answer.reasoning,
            )
        case _:
            return None


KnownCallEvent = AttemptStarted | ContextAssembled | AttemptEnded | CallCompleted
"""The events of calls and attempts that this release writes and reads."""
