"""The turn that is being answered, and the situations that it is in.

Two fields show the progress of an open turn. Its lease says whether an attempt runs, and its call
whether the prompt of the next request to a model is recorded. A turn whose tools wait for a person
or for child sessions waits with them, and no attempt begins until they are settled:
`find_situation` returns which of all these holds.

Nothing of an open turn survives it except the results of its tools, which the next turn may
include. Classes that the fold replaces have no slots, because `frozen_copies` copies their
`__dict__`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.events.model.child_events import ParentInput
from turnlog.events.model.override_events import UserOverride
from turnlog.events.model.retrieval_events import NothingFoundPolicy
from turnlog.events.model.turn_events import TurnReservation, TurnRole
from turnlog.projections.blueprint.schema.policy_specs import CutTurnPolicy
from turnlog.projections.session.text_refs import InputsRef, MediaRef, TextRef
from turnlog.projections.session.token_counts import CountedPrompt
from turnlog.projections.session.tool_uses import ChildTurnRef, ToolUse, UndecidedApproval
from turnlog.projections.session.turn_summaries import PendingSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSubmission:
    """What was submitted as a turn, by reference; a queued turn is nothing more."""

    turn: int
    text: TextRef | None
    event: str
    """Id of the event that submitted or queued it."""
    inputs: InputsRef | None = None
    """Reference to its inputs, its own and the parent's, or None where it has none."""
    role: TurnRole = "user"
    """Whose text it is."""
    user: str | None = None
    """Who asked."""
    reservation: TurnReservation | None = None
    """What it reserved of the user's quota; None if the user has none."""
    overrides: tuple[UserOverride, ...] = ()
    """The user's own prompts, as its event names them."""
    parent_inputs: tuple[ParentInput, ...] = ()
    """The inputs of the parent's turn that it is given."""
    media: tuple[MediaRef, ...] = ()
    """The pictures, recordings and files beside its text."""


@dataclass(frozen=True, slots=True)
class UnclaimedTurn:
    """No worker has claimed the turn yet."""

    @property
    def attempt(self) -> int:
        """The number before that of the first attempt."""
        return 0

    @property
    def worker(self) -> str:
        """Nobody."""
        return ""


@dataclass(frozen=True, slots=True)
class RunningAttempt:
    """A worker holds the lease of the turn; the attempt number is its fencing token."""

    attempt: int
    worker: str


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """The latest attempt has ended, and any worker may claim the turn."""

    ended: RunningAttempt

    @property
    def attempt(self) -> int:
        """Its number."""
        return self.ended.attempt

    @property
    def worker(self) -> str:
        """The worker that made it."""
        return self.ended.worker


TurnLease = UnclaimedTurn | RunningAttempt | EndedAttempt
"""Who works at a turn."""


@dataclass(frozen=True, slots=True)
class UnpromptedCall:
    """The next call of the turn, before its prompt is recorded."""

    number: int
    """Its number within the turn."""
    after_attempt: int
    """The attempt that made the call before; 0 in the first call."""

    @property
    def before(self) -> int:
        """Number of the call after which the turn continued with this one; 0 in the first call."""
        return self.number - 1

    @property
    def next_number(self) -> int:
        """The number of the next call whose prompt is recorded."""
        return self.number


@dataclass(frozen=True, slots=True)
class PromptedCall:
    """The call whose prompt is recorded and that has no answer yet."""

    number: int
    """Its number within the turn, which rises when another prompt supersedes the recorded one."""
    unprompted: UnpromptedCall
    """The call as it was before its first prompt."""
    manifest: TextRef
    """Reference to its manifest; the digest is that of the request."""
    counted: CountedPrompt
    """How its tokens were counted."""

    @property
    def model(self) -> str:
        """The model that it asks."""
        return self.counted.model

    @property
    def before(self) -> int:
        """Number of the call after which the turn continued with this one; 0 in the first call."""
        return self.unprompted.before

    @property
    def after_attempt(self) -> int:
        """The attempt that made the call before; 0 in the first call."""
        return self.unprompted.after_attempt

    @property
    def next_number(self) -> int:
        """The number of the next call whose prompt is recorded."""
        return self.number + 1


CurrentCall = UnpromptedCall | PromptedCall
"""The call that the attempts of a turn are at."""


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A model call of the open turn whose answer the turn continued from."""

    call: str
    said: TextRef | None
    """Reference to the text of the answer; None if it has none."""
    model: str
    """The model that was asked."""
    reasoning: TextRef | None
    """Reference to what it reasoned; None if it sent nothing of it."""


@dataclass(frozen=True, slots=True)
class RejectedAnswer:
    """An answer that did not have the required form, and what the model is told about it."""

    text: TextRef
    correction: TextRef


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of the plan of a turn."""

    goal: TextRef
    tools: tuple[str, ...]
    """Tools the step may use; empty allows every offered tool."""
    given: int | None = None
    """Sequence of a tool result of the previous turn that already satisfies the step."""


@dataclass(frozen=True, slots=True)
class ActedStep:
    """The latest step of a plan whose tactic call was answered."""

    number: int
    """Its number in the plan, from 1."""
    is_retry: bool = False
    """Whether it was its second tactic call; there is no third."""


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """The plan of a turn, and how far it is carried out."""

    steps: tuple[PlannedStep, ...] = ()
    acted: ActedStep | None = None
    """None before the first tactic call is answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResolution:
    """The answer of the resolver for the open turn."""

    intent: str | None
    """The intent that the resolver recognised."""
    entity: str | None
    """Kind of thing the turn is about, or None when the question is out of scope."""
    identifiers: dict[str, JsonValue]
    """Identifiers of that thing, by name."""
    found: bool
    """Whether that thing exists."""
    results: TextRef
    """Reference to the results, as JSON."""
    answer: TextRef
    """Reference to the answer that is used when no model answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievedEntry:
    """An entry of the knowledge that the open turn took."""

    collection: str
    entry: str
    """Its id within the collection."""
    revision: int
    """Sequence of the event of the knowledge that gave it this text."""
    title: str
    digest: Digest
    """Digest of the blob that holds its text."""
    score: float
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRetrieval:
    """A retrieval that the open turn has made."""

    retrieval: str
    """The blueprint's name of it."""
    sequence: int
    """Sequence of the event that records it."""
    entries: tuple[RetrievedEntry, ...]
    """What was taken, best first."""
    nothing_found: NothingFoundPolicy | None
    """What the turn does because nothing was taken; None if something was."""
    unavailable: str | None
    """Why there was no search, as a code; None if there was one."""

    @property
    def confidence(self) -> float:
        """The confidence of the best entry; 0 if nothing was taken."""
        return self.entries[0].confidence if self.entries else 0.0


@dataclass(frozen=True, slots=True)
class WrittenQueries:
    """What the call that writes the queries of a retrieval answered."""

    retrieval: str
    """The blueprint's name of the retrieval."""
    call: str
    answer: TextRef | None
    """Reference to the answer; None if the call failed."""


FIRST_CALL: Final = UnpromptedCall(1, after_attempt=0)

UNCLAIMED: Final = UnclaimedTurn()


@dataclass(frozen=True, kw_only=True)
class OpenTurn:
    """The turn that is being answered."""

    submission: TurnSubmission
    released_at: str
    """When it became the open turn, or an approval was decided or a child settled last, RFC 3339;
    its deadline counts from here.
    """
    lease: TurnLease = UNCLAIMED
    call: CurrentCall = FIRST_CALL
    answers: tuple[AnsweredCall, ...] = ()
    """The answers after which the turn continued, oldest first."""
    replied: AnsweredCall | None = None
    """The answer that is its reply, once that is recorded with the tool calls that it came with."""
    rejected: RejectedAnswer | None = None
    """The latest rejected answer of its current call, where the model is told about it."""
    has_overflowed: bool = False
    """Whether the provider refused a prompt of its current call as too long."""
    tools: tuple[ToolUse, ...] = ()
    """Tool calls requested so far."""
    plan: TurnPlan | None = None
    """None before there is a plan."""
    summing: PendingSummary | None = None
    """The summary it waits for before it continues."""
    summed: tuple[str, ...] = ()
    """Views for which this turn already requested a summary, successful or not."""
    querying: str | None = None
    """The retrieval whose queries a model is to write before the turn continues."""
    queried: tuple[WrittenQueries, ...] = ()
    """The answers of the calls that wrote queries, each retrieval once."""
    resolved: TurnResolution | None = None
    """The resolver's answer, once it is recorded."""
    retrievals: tuple[TurnRetrieval, ...] = ()
    """What it retrieved so far, each retrieval once."""
    adapted: bool = False
    """Whether a prompt only named the tools because it adapts a retrieved case."""

    @property
    def turn(self) -> int:
        """Its number."""
        return self.submission.turn

    @property
    def attempt(self) -> int:
        """Number of the latest attempt; 0 before the first claim."""
        return self.lease.attempt

    @property
    def is_running(self) -> bool:
        """Whether that attempt is still running."""
        return isinstance(self.lease, RunningAttempt)

    @property
    def call_id(self) -> str:
        """Id of its current call: the latest with a recorded prompt, or the next."""
        return f"{self.turn}.{self.call.number}"

    @property
    def call_attempts(self) -> int:
        """Number of attempts at its current call, a running one included."""
        return self.attempt - self.call.after_attempt


def is_before_first_call(opened: OpenTurn) -> bool:
    """Return whether no prompt of the turn is recorded yet."""
    return opened.call == FIRST_CALL


@dataclass(frozen=True, slots=True)
class AnswerRejection:
    """An answer without the required form, and what the next attempt is told about it."""

    text: str
    correction: str = ""
    """Empty if the next attempt is told nothing."""


@dataclass(frozen=True, slots=True)
class WithheldAnswer:
    """A refused answer: the rule that refused it, its replacement, and the blob that holds it."""

    reason: str
    rule: str
    replacement: str
    blob: Digest


@dataclass(frozen=True, slots=True)
class CutReply:
    """The reply of an open turn that ends before it is whole."""

    policy: CutTurnPolicy = "drop"
    """What later prompts include of the turn."""
    shown: str = ""
    """What was shown of it."""


NOTHING_KEPT: Final = CutReply()
"""Of a turn that later prompts leave out."""


@dataclass(frozen=True, slots=True)
class UndecidedTool:
    """A pending tool, and the approval that it waits for."""

    use: ToolUse
    approval: UndecidedApproval


@dataclass(frozen=True, slots=True)
class PendingChild:
    """A pending tool that is the turn of a child session."""

    use: ToolUse
    child: ChildTurnRef


@dataclass(frozen=True, slots=True)
class ApprovalWait:
    """The turn waits until a person has decided about all of these tools."""

    tools: tuple[UndecidedTool, ...]


@dataclass(frozen=True, slots=True)
class ChildWait:
    """The turn waits until all of these children are settled."""

    children: tuple[PendingChild, ...]


TurnSituation = ApprovalWait | ChildWait | UnclaimedTurn | RunningAttempt | EndedAttempt
"""What an open turn waits for, or else who works at it."""


def find_situation(opened: OpenTurn) -> TurnSituation:
    """Return what a turn waits for, or else its lease."""
    if undecided := list_undecided_tools(opened):
        return ApprovalWait(undecided)
    if children := list_pending_children(opened):
        return ChildWait(children)
    return opened.lease


def list_undecided_tools(opened: OpenTurn | None) -> tuple[UndecidedTool, ...]:
    """Return the tools that wait for an approval, in order."""
    return tuple(
        UndecidedTool(use, use.approval)
        for use in (opened.tools if opened else ())
        if isinstance(use.approval, UndecidedApproval) and use.is_pending
    )


def list_pending_children(opened: OpenTurn | None) -> tuple[PendingChild, ...]:
    """Return the turns of child sessions that are not settled; none of them runs in a worker."""
    return tuple(
        PendingChild(use, use.progress)
        for use in (opened.tools if opened else ())
        if isinstance(use.progress, ChildTurnRef)
    )


def list_pending_tools(opened: OpenTurn) -> tuple[ToolUse, ...]:
    """Return the requested tools that have not returned, in order."""
    return tuple(use for use in opened.tools if use.is_pending)
