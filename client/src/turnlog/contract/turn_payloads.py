"""The responses about turns and commands, and the history of a session."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from turnlog.contract.payload_models import JsonObject, ResponseModel
from turnlog.contract.session_payloads import UnreadableMessage
from turnlog.contract.value_names import (
    ApprovalDecision,
    ChildOutcome,
    FeedbackVote,
    FinishReason,
    InputFindingAction,
    MediaKind,
    TurnRole,
)

TurnStatus = Literal["queued", "open", "completed", "failed", "cancelled"]

SpanKind = Literal[
    "queued", "unclaimed", "preparing", "call", "attempt", "waiting", "tool", "approval"
]
"""`queued`: behind an earlier turn. `unclaimed`: until a worker took it. `preparing`: from there,
or from the end of a tool or an approval, to the first request of a call. `call`: its attempts and
the waiting between them. `waiting`: before an attempt. `approval`: for a person.
"""


class SubmittedTurn(ResponseModel):
    """A turn that is on the event log."""

    session: str
    """The session id."""
    turn: int
    """The turn number within the session."""
    sequence: int
    """The sequence of the event that submitted it."""
    stream: str
    """The path of its reply stream."""
    events: str
    """The path of its events."""


class RequestedApproval(ResponseModel):
    """A tool that waits for a person, with what the person has to know."""

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
    digest: str | None = None
    """The digest of `arguments`; a decision names it as `shown`."""
    deadline: str
    """Without a decision by then the tool is refused."""
    decide: str
    """The path to which the decision is posted."""


class ListedApproval(ResponseModel):
    """A tool of any session that waits for a person, or about which was decided."""

    session: str
    """The session in which it is decided."""
    turn: int
    """The number of the turn in it."""
    approval: int
    """The number of the approval within the turn."""
    user: str | None
    """The user who submitted the turn; null if none was named."""
    call: str
    """The call whose answer requested the tool."""
    id: str
    """The provider's id of the tool request."""
    tool: str
    """The name of the tool."""
    arguments: str | None
    """Its arguments as the model wrote them; null once it is decided, since `/history` has them,
    and where the log of the session cannot be read.
    """
    digest: str | None = None
    """The digest of `arguments`; a decision names it as `shown`."""
    requested_at: str
    """When it was requested."""
    deadline: str
    """Without a decision by then the tool is refused."""
    decide: str
    """The path to which the decision is posted."""
    decision: ApprovalDecision | None
    """The decision; null while there is none."""
    decided_at: str | None
    """When it was decided."""
    by: str | None
    """The person who decided; null if the deadline passed first."""


class ApprovalPage(ResponseModel):
    """Approvals of all sessions, the newest requests first."""

    approvals: tuple[ListedApproval, ...]
    """The approvals; a page may be shorter than `limit` where some were decided meanwhile."""
    next: str | None
    """The `before` of the next page; null on the last page."""


class UndecidedTurnView(SubmittedTurn):
    """A submitted turn that goes on when a person has decided."""

    status: Literal["waiting-for-approval"]
    """Why it is not settled yet."""
    approvals: tuple[RequestedApproval, ...]
    """The tools that wait for a decision."""


class StoredBlobView(ResponseModel):
    """A picture, a recording or a file that is stored."""

    digest: str
    """SHA-256 of its bytes, by which a part of a turn names it."""
    size: int
    """Number of bytes."""
    media_type: str
    """What its bytes are, such as `image/png`."""


class MediaPartView(ResponseModel):
    """A picture, a recording or a file; `/v1/blobs/{digest}` has its bytes."""

    kind: MediaKind
    """What a model is sent it as."""
    digest: str
    """SHA-256 of its bytes."""
    size: int
    """Number of bytes."""
    media_type: str
    """Its type, such as `image/png`."""
    name: str | None = None
    """The name of the file; null if it has none."""
    at: int
    """Where it stands in the text, in code points."""
    width: int | None = None
    """Width of a picture in pixels; null if its bytes do not say."""
    height: int | None = None
    """Height of a picture in pixels; null if its bytes do not say."""
    pages: int | None = None
    """Pages of a document; null if its bytes do not say."""
    seconds: int | None = None
    """Length of a recording; null if its bytes do not say."""


class SettledTurnView(SubmittedTurn):
    """A submitted turn with its outcome."""

    settled: int
    """The sequence of the event that settled it."""
    status: TurnStatus
    """The status of the turn."""
    reply: str | None
    """The reply, or the replacement of a redacted one."""
    finish: FinishReason | None
    """Why the model stopped; `length` means that the reply is incomplete."""
    redacted: bool
    """Whether the reply was redacted."""
    reason: str | None
    """Why it failed, was cancelled or was redacted."""
    detail: str | None = None
    """What went wrong, for people; null unless it failed."""
    fallback: str | None = None
    """Why the reply is a fallback; null when a model wrote it."""
    output: JsonValue = None
    """The reply as the value that it is, where its call requires a schema; otherwise null."""
    reply_parts: tuple[MediaPartView, ...] = ()
    """The pictures, recordings and files of the reply, whose text has a line for each."""


class CommandResult(ResponseModel):
    """The result of a command, which may have had nothing to do."""

    session: str
    """The session id."""
    turn: int | None
    """The turn it applies to, if any."""
    sequence: int
    """The sequence of its last event; the session's last sequence when it had nothing to do."""


class ClosedChild(ResponseModel):
    """A child session of a coordinator that was closed."""

    session: str
    """The session id of the child."""
    closed: bool
    """Whether the child is closed; if not, it could not be reached, and closing the parent again
    tries again.
    """


class CloseResult(CommandResult):
    """A session is closed, and its children with it."""

    children: tuple[ClosedChild, ...] = ()
    """The child sessions, and theirs."""


class ApprovalResult(CommandResult):
    """What is decided about a tool: by this request, or by an earlier one with the same decision.

    Its `sequence` is that of the decision, however often it is sent.
    """

    approval: int
    """The number of the approval within the turn."""
    decision: ApprovalDecision
    """The decision on record."""
    by: str | None
    """The person who decided; null if the deadline passed first."""
    approved: str | None = None
    """The digest of the arguments that may run; null for a refusal."""
    edited: bool = False
    """Whether a person edited them."""


class DisplayView(ResponseModel):
    """The display form of a turn."""

    text: str | None
    """The display form of the text; null when none was recorded."""
    reply: str | None
    """The display form of the reply; null when none was recorded or the reply is redacted."""


class TurnPlanStep(ResponseModel):
    """A step of a turn's plan."""

    step: int
    """The step number."""
    goal: str | None
    """The goal of the step."""
    given: bool
    """Whether the previous turn's result was reused and no call was made."""


class TurnApproval(ResponseModel):
    """The approval that a tool needs before it runs, and what was decided."""

    approval: int
    """Its number within the turn."""
    deadline: str
    """Without a decision by then the tool is refused."""
    decision: ApprovalDecision | None = None
    """The decision; null while there is none."""
    reason: str = ""
    """The reason that was given."""
    by: str | None = None
    """The person who decided; null if the deadline passed first."""
    edited: str | None = None
    """The arguments that the person wrote, with which the tool ran; null if the model's stayed."""


class TurnChild(ResponseModel):
    """The turn of a child session that a coordinator asked for."""

    session: str
    """Id of the child session."""
    turn: int
    """Number of the turn in it."""
    outcome: ChildOutcome | None = None
    """Its outcome; null while the coordinator waits."""


class TurnToolUse(ResponseModel):
    """A tool that a model requested, and its outcome."""

    call: str
    """The call that requested it."""
    id: str
    """The provider's id of the tool request."""
    tool: str
    """The name of the tool."""
    arguments: str
    """The arguments as the model wrote them."""
    step: int | None
    """The plan step that it belongs to."""
    outcome: str | None
    """The outcome; null until the tool returns."""
    detail: str
    """Why it was refused, failed or was lost."""
    text: str | None
    """The text that prompts contain."""
    characters: int
    """The length of the whole result."""
    condensed: bool
    """Whether prompts contain a summary of it."""
    milliseconds: int | None
    """How long the tool server took."""
    approval: TurnApproval | None = None
    """The approval that it needs, if any."""
    child: TurnChild | None = None
    """The child's turn that it stands for, if the tool is a child of a coordinator."""
    parts: tuple[MediaPartView, ...] = ()
    """The pictures, recordings and files of its result."""


class InputFindingView(ResponseModel):
    """What a rule of the blueprint found in a submitted turn that it let pass."""

    rule: str
    """The name of the rule."""
    action: InputFindingAction
    """Whether it was replaced before the turn was recorded, or only noted."""
    count: int
    """How often it was found."""


class TurnVoteView(ResponseModel):
    """A vote in force on a turn, or on an entry that it retrieved."""

    vote: FeedbackVote
    """The vote: `up` or `down`."""
    sequence: int
    """The event of the vote."""
    collection: str | None = None
    """The collection of the entry; null for a vote on the turn."""
    entry: str | None = None
    """The id of the entry; null for a vote on the turn."""


class TurnView(ResponseModel):
    """A turn as people read it."""

    turn: int
    """The turn number."""
    status: TurnStatus
    """The status of the turn."""
    text: str | None
    """The text that was submitted."""
    role: TurnRole
    """Whose text it is; a turn of the system has no reply."""
    findings: tuple[InputFindingView, ...] = ()
    """What the blueprint's rules for inputs masked or noted before it was recorded."""
    meta: JsonObject = {}
    """What the application recorded with the turn, as `meta` or as `metadata`."""
    reply: str | None
    """The reply, or the replacement of a redacted one."""
    partial: str | None = None
    """What was shown of the reply before the turn failed or was cancelled; null if nothing was."""
    reasoning: str | None = None
    """What the model reasoned before the reply, where the query asks for it and it can be read;
    otherwise null.
    """
    cut_line: str | None = None
    """The line after it by which later prompts say that the reply was cut; null if they leave out
    what was said in the turn.
    """
    finish: FinishReason | None
    """Why the model stopped."""
    call: str | None
    """The call that wrote the reply."""
    excluded: bool
    """Whether it is excluded from windows."""
    redacted: bool
    """Whether the reply was redacted."""
    text_withheld: str | None = None
    """Why what was submitted was withheld, all of it or a part; null if nothing was. `text` is what
    stands.
    """
    reason: str | None
    """Why it failed, was cancelled or was redacted."""
    detail: str | None = None
    """What went wrong, for people; null unless it failed."""
    sequence: int
    """The sequence of the event that submitted it."""
    submitted_at: str
    """When it was submitted."""
    settled_at: str | None
    """When it was settled."""
    purged: bool = False
    """Whether a purge excluded it from windows."""
    remembered: bool = True
    """Whether later prompts may include it."""
    fallback: str | None = None
    """Why the reply is a fallback; null when a model wrote it."""
    output: JsonValue = None
    """The reply as the value that it is, where its call requires a schema; otherwise null."""
    phase: str | None = None
    """The phase it belongs to."""
    display: DisplayView | None = None
    """Its display form as recorded; null when none was recorded."""
    steps: tuple[TurnPlanStep, ...] = ()
    """The steps of its plan, if it has one."""
    tools: tuple[TurnToolUse, ...] = ()
    """The tools it used, in order."""
    votes: tuple[TurnVoteView, ...] = ()
    """The votes in force on the turn and on the entries that it retrieved, in order."""
    parts: tuple[MediaPartView, ...] = ()
    """The pictures, recordings and files beside its text, in the order of their places in it."""
    reply_parts: tuple[MediaPartView, ...] = ()
    """Those of the reply, or of what was shown of it, whose text has a line for each."""


class PhaseVisit(ResponseModel):
    """One visit of a session to a phase."""

    phase: str
    """The phase."""
    before: str | None
    """The previous phase."""
    signal: str | None
    """The signal that led to it."""
    at: str
    """When it began."""
    first: int
    """The event that entered it, or the profile switch just before."""
    last: int
    """Its latest event; `at` this sequence gives its final state and window."""
    carried: str | None
    """The text that its prompts are given about the previous phase."""
    shared: tuple[str, ...]
    """The phases whose turns are visible to it, where phases are isolated."""
    hidden: tuple[str, ...]
    """The earlier phases that are not visible to it."""
    turns: tuple[int, ...]
    """The turns that belong to it."""


class HistoryView(ResponseModel):
    """The turns of a session, or of one phase."""

    session: str
    """The session id."""
    sequence: int
    """The sequence that the response reflects."""
    turns: tuple[TurnView, ...]
    """The turns in order."""
    stays: tuple[PhaseVisit, ...] = ()
    """The phase visits in order; empty without phases."""
    unreadable: UnreadableMessage | None = None
    """What is stored behind the last event and is none, so that no turn can follow."""


class TurnSpan(ResponseModel):
    """A stretch of a turn's time."""

    kind: SpanKind
    """What the time was spent on."""
    sequence: int
    """The sequence of the event that ended it, or that began it while it lasts."""
    offset_ms: int
    """Milliseconds from the begin of the turn to its begin."""
    length_ms: int | None
    """Milliseconds that it took; null while it lasts, and if nobody measured it."""
    call: str | None = None
    """The call; of a tool and an approval, the one whose answer asked for it."""
    name: str = ""
    """The tool; for an attempt its number, for an approval its number within the turn."""
    outcome: str | None = None
    """How it ended; null while it lasts."""
    fault: str | None = None
    """The code of the failure of an attempt."""
    step: int | None = None
    """The plan step of a tool."""


class TurnTimelineView(ResponseModel):
    """Where the time of a turn went."""

    session: str
    """The session id."""
    sequence: int
    """The sequence that the response reflects."""
    turn: int
    """The turn number."""
    begun_at: str
    """When it was submitted; the offsets of the spans count from here."""
    length_ms: int | None
    """Milliseconds until it ended; null while it is open."""
    elapsed_ms: int
    """Milliseconds until it ended, or until this response."""
    spans: tuple[TurnSpan, ...]
    """What the time was spent on, by begin; spans of one call overlap."""
