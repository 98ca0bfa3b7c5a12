"""Events of the turn family: a turn from submission to reply, and what its resolver found.

`TurnSubmitted` and `TurnReleased` have subjects of their own, because workers wait for them; the
subject of `TurnReleased` is also that of a decided approval. A resolver runs outside of Turnlog.
Its result is recorded before a model is called, so that a prompt built from it can be reproduced.
"""

from __future__ import annotations

from collections.abc import Container
from typing import ClassVar, Final, Literal

from pydantic import Field

from turnlog.events.content import Content, PersonName, Words, WordValues
from turnlog.events.event_model import EventModel, ReplyTextEvent, StatelessEvent
from turnlog.events.model.attempt_figures import AttemptUsage, build_figures_sentence
from turnlog.events.model.child_events import ParentInput
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.override_events import UserOverride
from turnlog.events.model.redaction_events import ReplyRedacted

FinishReason = Literal[
    "stop", "length", "tool_calls", "content_filter", "safety", "recitation", "other"
]
"""Why a model stopped, in one vocabulary for all providers; `other` is none that we know, and the
provider's own word is recorded beside it.
"""

FILTER_REASONS: Final[frozenset[FinishReason]] = frozenset(
    {"content_filter", "safety", "recitation"}
)
"""A filter of the provider cut the answer."""


TurnRole = Literal["user", "system"]
"""Who a turn's text is from. A turn of the system has no reply."""


InputFindingAction = Literal["mask", "note"]
"""What was done with a finding in a turn that was recorded."""


class TurnReservation(EventModel):
    """What a turn reserved of a quota, so that whoever settles the turn can settle it too."""

    id: str
    """The id of the reservation."""
    period: str
    """The month that it counts for, such as `2026-11`."""
    used_up: str | None = None
    """The limit that is used up, in words: no model is asked, and the resolver's answer is the
    reply. None while tokens are left.
    """


class InputFinding(EventModel):
    """What a rule of the blueprint's `input_safety` found in a turn that it let pass."""

    rule: str
    """The name of the rule."""
    action: InputFindingAction
    """Whether it was replaced before the turn was recorded, or only noted."""
    count: int
    """How often it was found."""


class TurnSubmitted(EventModel):
    """A turn is open; a worker may claim it, unless the same batch completes it (role `system`)."""

    type: ClassVar[str] = "turnlog.turn-submitted.v1"
    leaf: ClassVar[str] = "turn.submitted"
    sentence: ClassVar[str] = "turn {turn} {text|content}"

    turn: int
    """Turn number within the session, from 1."""
    text: Content | None = None
    """The user's text, empty beside parts alone; None if the turn starts without one."""
    role: TurnRole = "user"
    """Whose text it is, and the role of its message in later prompts."""
    inputs: WordValues = Field(default_factory=dict)
    """Further inputs that the blueprint accepts."""
    references: WordValues = Field(default_factory=dict)
    """Identifiers that the turn refers to."""
    meta: WordValues = Field(default_factory=dict)
    """Metadata of the caller, which decides nothing; a child's turn has `turn`, `call` and `id` of
    the request of its parent.
    """
    remembered: bool = True
    """Whether later prompts may include this turn; the log keeps it either way."""
    user: PersonName | None = None
    """Who asked; None if the request named nobody."""
    reservation: TurnReservation | None = None
    """What it reserved of the user's quota; None if the user has none."""
    overrides: tuple[UserOverride, ...] = ()
    """The user's own prompts for this blueprint, as they were when the turn was submitted."""
    findings: tuple[InputFinding, ...] = ()
    """What the rules of `input_safety` masked or noted."""
    parent_inputs: tuple[ParentInput, ...] = ()
    """Inputs of the parent's turn that a child's turn is given; empty for all other turns."""
    parts: tuple[MediaPart, ...] = ()
    """Pictures, recordings and files beside the text, in the order of their places in it."""


class TurnQueued(EventModel):
    """A turn waits behind an open one; workers are not notified."""

    type: ClassVar[str] = "turnlog.turn-queued.v1"
    leaf: ClassVar[str] = "turn"
    sentence: ClassVar[str] = "turn {turn} {text|content}"

    turn: int
    """Turn number within the session, from 1."""
    text: Content | None = None
    """The user's text."""
    inputs: WordValues = Field(default_factory=dict)
    """Further inputs that the blueprint accepts."""
    references: WordValues = Field(default_factory=dict)
    """Identifiers that the turn refers to."""
    meta: WordValues = Field(default_factory=dict)
    """Metadata of the caller, which decides nothing; a child's turn has `turn`, `call` and `id` of
    the request of its parent.
    """
    remembered: bool = True
    """Whether later prompts may include this turn; the log keeps it either way."""
    user: PersonName | None = None
    """Who asked; None if the request named nobody."""
    reservation: TurnReservation | None = None
    """What it reserved of the user's quota; None if the user has none."""
    overrides: tuple[UserOverride, ...] = ()
    """The user's own prompts for this blueprint, as they were when the turn was submitted."""
    findings: tuple[InputFinding, ...] = ()
    """What the rules of `input_safety` masked or noted."""
    parent_inputs: tuple[ParentInput, ...] = ()
    """Inputs of the parent's turn that a child's turn is given; empty for all other turns."""
    parts: tuple[MediaPart, ...] = ()
    """Pictures, recordings and files beside the text, in the order of their places in it."""


class TurnReleased(EventModel):
    """A queued turn is open now; its deadline starts here."""

    type: ClassVar[str] = "turnlog.turn-released.v1"
    leaf: ClassVar[str] = "turn.released"
    sentence: ClassVar[str] = "turn {turn}"

    turn: int
    """The number of the queued turn."""


class ChoiceRecorded(EventModel):
    """The user made a choice, in a phase that offers choices instead of turns."""

    type: ClassVar[str] = "turnlog.choice-recorded.v1"
    leaf: ClassVar[str] = "turn.marked"
    sentence: ClassVar[str] = "{phase}: {choice}[ “{label}”]"

    phase: str
    """The phase that offered the choice."""
    choice: str
    """The cartridge's name of the choice."""
    label: Words | None = None
    """How later prompts describe it; None if they do not mention it."""


class PhaseExchange(EventModel):
    """The role of a completed turn in its phase."""

    phase: str
    """The phase the turn belonged to."""
    kind: Literal["freeform", "debrief"]
    """The kind of that phase."""
    count: int
    """Number of exchanges in the phase so far, including this one."""
    signal: str | None = None
    """The signal that ended the phase with this turn; None if the phase goes on."""
    next: str | None = None
    """The next phase."""


class ReplyFallback(EventModel):
    """Why a reply does not come from a model."""

    code: str
    """A code: the failure code of the model call, `model-off`, or `unroutable`."""
    detail: str
    """The reason for people; it contains no prompt text and no secret."""


class ReplyAnswer(EventModel):
    """The end of the call whose answer is the reply: which attempt gave it, and what it took."""

    attempt: int
    """The attempt that answered."""
    spent: AttemptUsage
    """What that attempt used, cost and took."""
    text: Content | None = None
    """What the model wrote, where the reply is another text: one that was repaired."""
    repairs: tuple[str, ...] = ()
    """Repairs made before the text could be parsed."""
    reasoning: Content | None = None
    """What the model reasoned, as in `call-completed`; None if its provider sent nothing of it."""


class InheritableReference(EventModel):
    """What a turn was about, as far as later turns may inherit it."""

    identifiers: WordValues
    """Identifiers that later turns may inherit."""
    intent: str | None = None
    """The intent of the turn."""
    entity: str | None = None
    """The kind of entity."""


class TurnCompleted(EventModel):
    """A turn has its reply; this event holds the recorded text.

    It also ends the call that gave the reply, and the attempt at it, unless events of their own
    end these before: `answer` is absent then, as in logs of earlier releases.
    """

    type: ClassVar[str] = "turnlog.turn-completed.v1"
    leaf: ClassVar[str] = "turn"
    sentence: ClassVar[str] = (
        "turn {turn} {text|content}[ · fallback after {fallback.code}]"
        "[ · about {reference.identifiers|pairs}]" + build_figures_sentence("answer.spent.")
    )

    turn: int
    """The turn number."""
    call: str | None = None
    """The call that produced the text; None if no model did."""
    text: Content
    """The complete reply; empty for a turn of the system, which has neither call nor fallback."""
    finish: FinishReason | None = None
    """Why the model stopped; `length` means the reply was cut off. None if no model answered."""
    fallback: ReplyFallback | None = None
    """Why a resolver's answer replaces the model's."""
    exchange: PhaseExchange | None = None
    """The turn's role in the session's state machine, if it has one."""
    work: Content | None = None
    """The plan and tool results, as the plans of later turns may include them."""
    structured: bool = False
    """Whether the text is JSON that matches the schema of its call: `parse_structured_text`."""
    answer: ReplyAnswer | None = None
    """The end of the call, where this event ends it; None if `call-completed` does, or no call was
    answered.
    """
    reference: InheritableReference | None = None
    """What the turn was about; None if later turns may not inherit it, or if `reference-updated`
    says it.
    """
    outcomes: Words = ""
    """The tools that ran in the turn, each with its outcome; empty if none ran. Later prompts
    include it where the reply is not the model's, or withheld since.
    """
    kept_results: tuple[int, ...] = ()
    """Sequences of the tool results that later prompts include with it."""
    parts: tuple[MediaPart, ...] = ()
    """The pictures, recordings and files of the reply, whose text has a line for each."""


class TurnFailed(ReplyTextEvent):
    """A turn ended without a reply."""

    type: ClassVar[str] = "turnlog.turn-failed.v1"
    leaf: ClassVar[str] = "turn"
    sentence: ClassVar[str] = "turn {turn} {code}: {detail}"
    reply_texts: ClassVar[tuple[str, ...]] = ("cut_reply",)

    turn: int
    """The turn number."""
    code: str
    """A code for the failure."""
    detail: str
    """The failure for people; it contains no prompt text and no secret."""
    retryable: bool
    """Whether submitting the turn again may succeed."""
    outcomes: Words = ""
    """The tools that ran in the turn, each with its outcome, as later prompts include it; empty if
    none ran.
    """
    kept_results: tuple[int, ...] = ()
    """Sequences of the tool results that later prompts include with it."""
    cut_reply: Content | None = None
    """What later prompts include as its reply: what was shown of it, and a line that says that it
    was cut. None if they leave out what was said in the turn.
    """
    shown: int = 0
    """How many code points of `cut_reply` were shown; the rest is that line."""


class TurnCancelled(ReplyTextEvent):
    """A turn was cancelled."""

    type: ClassVar[str] = "turnlog.turn-cancelled.v1"
    leaf: ClassVar[str] = "turn"
    sentence: ClassVar[str] = "turn {turn} {reason}"
    reply_texts: ClassVar[tuple[str, ...]] = ("cut_reply",)

    turn: int
    """The turn number."""
    reason: Literal["cancelled", "interrupted", "closed", "phase-left"]
    """By request, by a later turn, because the session closed, or because it left the phase in
    which the turn was waiting.
    """
    outcomes: Words = ""
    """The tools that ran in the turn, each with its outcome, as later prompts include it; empty if
    none ran.
    """
    kept_results: tuple[int, ...] = ()
    """Sequences of the tool results that later prompts include with it."""
    cut_reply: Content | None = None
    """What later prompts include as its reply: what was shown of it, and a line that says that it
    was cut. None if they leave out what was said in the turn.
    """
    shown: int = 0
    """How many code points of `cut_reply` were shown; the rest is that line."""


TurnEndEvent = TurnCompleted | TurnFailed | TurnCancelled | ReplyRedacted
"""The events that end a turn; the class says how it ended."""

TURN_END_TYPES: Final = (TurnCompleted, TurnFailed, TurnCancelled, ReplyRedacted)


def find_turn_end(event: object, ended: Container[int] = ()) -> TurnEndEvent | None:
    """Return the event if it ends its turn, else None.

    `reply-redacted` ends a turn whose reply is withheld before it is recorded. The same event may
    follow much later and replace a recorded reply; then the turn is in `ended`, and the event ends
    nothing.
    """
    match event:
        case ReplyRedacted(turn=turn) if turn in ended:
            return None
        case TurnCompleted() | TurnFailed() | TurnCancelled() | ReplyRedacted():
            return event
        case _:
            return None


def is_end_of_turn(event: object, turn: int) -> bool:
    """Return whether an event ends this turn, which has not ended before."""
    end = find_turn_end(event)
    return end is not None and end.turn == turn


class TurnExcluded(EventModel):
    """A turn is excluded from all windows from now on; the audit still shows it."""

    type: ClassVar[str] = "turnlog.turn-excluded.v1"
    leaf: ClassVar[str] = "turn.marked"
    sentence: ClassVar[str] = "turn {turn}"

    turn: int
    """The turn number."""


class TurnDisplayed(StatelessEvent, ReplyTextEvent):
    """A turn has display texts beside its plain texts; no window contains them."""

    type: ClassVar[str] = "turnlog.turn-displayed.v1"
    leaf: ClassVar[str] = "turn"
    sentence: ClassVar[str] = (
        "turn {turn} · display form[ · {text|flag:text}][ · {reply|flag:reply}]"
    )
    reply_texts: ClassVar[tuple[str, ...]] = ("reply",)

    turn: int
    """The turn number."""
    text: Content | None = None
    """How the user's text is displayed; None to display the plain text."""
    reply: Content | None = None
    """How the reply is displayed; None to display the plain text."""


class TurnRestored(EventModel):
    """An excluded turn is included in windows again."""

    type: ClassVar[str] = "turnlog.turn-restored.v1"
    leaf: ClassVar[str] = "turn.marked"
    sentence: ClassVar[str] = "turn {turn}"

    turn: int
    """The turn number."""


class TurnResolved(EventModel):
    """A resolver stated what a turn is about, and what it can answer without a model."""

    type: ClassVar[str] = "turnlog.turn-resolved.v1"
    leaf: ClassVar[str] = "turn"
    sentence: ClassVar[str] = (
        "turn {turn} is about {intent|or:entity|else:nothing known}"
        "[ · {identifiers|pairs}], {reason}"
    )

    turn: int
    """The turn number."""
    resolver: str
    """The resolver: its registered name, or its host."""
    intent: str | None = None
    """The intent of the turn; None if unknown."""
    entity: str | None = None
    """The kind of entity the turn is about; None if it concerns no entity."""
    identifiers: WordValues = Field(default_factory=dict)
    """Identifiers of the entity: those in the text first, then inherited ones."""
    found: bool = True
    """Whether the entity exists; no later turn inherits the identifiers of one that does not."""
    used: bool = False
    """Whether an identifier was inherited from the last reference."""
    reason: Words
    """Why an identifier was or was not inherited."""
    results: Content
    """The results as JSON."""
    meta: WordValues = Field(default_factory=dict)
    """Metadata of the results; stored and returned, never interpreted."""
    answer: Content
    """The answer used when no model answers."""


class ReferenceUpdated(EventModel):
    """A turn was answered; later turns may inherit what it was about.

    Earlier releases wrote it; `turn-completed` says it now.
    """

    type: ClassVar[str] = "turnlog.reference-updated.v1"
    leaf: ClassVar[str] = "memory"
    sentence: ClassVar[str] = "turn {turn} was about {identifiers|pairs}"

    turn: int
    """The turn number."""
    identifiers: WordValues
    """Identifiers that later turns may inherit."""
    intent: str | None = None
    """The intent of the turn."""
    entity: str | None = None
    """The kind of entity."""


KnownTurnEvent = (
    TurnSubmitted
    | TurnQueued
    | TurnReleased
    | ChoiceRecorded
    | TurnResolved
    | TurnCompleted
    | TurnFailed
    | TurnCancelled
    | TurnExcluded
    | TurnRestored
    | TurnDisplayed
    | ReferenceUpdated
)
"""The events of turns that this release writes and reads."""
