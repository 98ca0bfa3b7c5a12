"""Events of the tool family: plans, tool requests and tool results.

A tool that may not run twice never does: the start is recorded before the tool runs, and a tool
that started and did not return is recorded as lost. Every requested tool returns exactly once. Each
step of a plan is an event of its own, so that prompts can refer to its goal as a text.

A tool may need a person's approval. It is requested with the answer that calls the tool, and the
turn goes on when all approvals of that answer are decided. `ApprovalDecided` is on a subject that
workers wait for, so that one of them takes the turn up at once. Three events have the arguments of
such a tool: `ToolCalled` those that the model asked for, `ApprovalDecided` those that the person
edited, and `ToolStarted` the digest of those that ran.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from turnlog.events.content import Content, Digest, WordDigest, Words
from turnlog.events.event_model import EventModel, ReplyTextEvent
from turnlog.events.model.content_parts import MediaPart


class ToolPin(EventModel):
    """A tool or a prompt of a server as it was described when the session pinned it."""

    digest: Digest
    """Digest of the blob with its definition for the model, which sees a prompt as a tool."""
    server: str
    """The blueprint's name of the tool server."""
    tool: str
    """Its name on that server."""
    idempotent: bool = False
    """Whether it may run again when the outcome of a run is unknown; a prompt always may."""
    kind: Literal["tool", "prompt"] = "tool"
    """Whether the server runs it or returns its text."""
    approval: bool = False
    """Whether a person must approve each call before it runs."""
    alias: str | None = None
    """The name that models know it by, if they do not take its own."""


class ToolsSnapshotted(EventModel):
    """The tools of a profile are fixed; servers may change theirs later, see `ToolListChanged`."""

    type: ClassVar[str] = "turnlog.tools-snapshotted.v1"
    leaf: ClassVar[str] = "prompt"
    sentence: ClassVar[str] = (
        "for profile {profile}: {tools|keys|else:no tool}"
        "[ · without the servers {servers_left_out|keys}]"
    )

    profile: str
    """The profile whose tools were listed."""
    digest: Digest
    """Digest of the whole snapshot; equal snapshots have equal digests."""
    tools: dict[str, ToolPin]
    """Pinned tool or prompt by its name, which models see unless it has an alias; snapshots of
    earlier releases pin no prompts.
    """
    full: Digest
    """Blob of the text that describes all tools in full."""
    names: Digest
    """Blob of the text that only lists their names."""
    left_out: dict[str, str] = {}
    """Tools and prompts of the servers that are not offered, each with the reason."""
    prompts: tuple[str, ...] = ()
    """Prompts of the servers, by name."""
    prompts_text: Digest | None = None
    """Blob of the text that describes the prompts; None if there are none."""
    servers_left_out: dict[str, str] = {}
    """Servers that are not required and could not be asked, each with the reason."""


class ChangedTool(EventModel):
    """A tool that its server describes otherwise than before."""

    before: Digest
    """Digest of its pinned definition."""
    after: Digest
    """Digest of the definition now; the same if only how it is run has changed."""


class ToolListChanged(EventModel):
    """The servers of a running session offer other tools than it is pinned to.

    It is found before the first call of a turn. If the blueprint allows it, the next event pins the
    new list; otherwise the session keeps its own, and the same list is not recorded again.
    """

    type: ClassVar[str] = "turnlog.tool-list-changed.v1"
    leaf: ClassVar[str] = "prompt"
    sentence: ClassVar[str] = (
        "for profile {profile}: {outcome}[ · added {added|keys}][ · removed {removed|keys}]"
        "[ · changed {changed|keys}]"
    )

    profile: str
    """The profile whose tools were listed."""
    digest: Digest
    """Digest of the list that the servers offer now, as `ToolsSnapshotted` has it."""
    added: dict[str, Digest] = {}
    """Digest of the definition by the name of each tool or prompt that was not there."""
    removed: dict[str, Digest] = {}
    """Digest of the pinned definition by the name of each that is gone."""
    changed: dict[str, ChangedTool] = {}
    """Those that are described or run otherwise, by name."""
    outcome: Literal["pinned", "not_pinned"]
    """Whether the session has the new list from this turn on, or goes on with its own."""


class SchemasRequested(EventModel):
    """Describe tools in full again, from the next call until a turn is completed."""

    type: ClassVar[str] = "turnlog.schemas-requested.v1"
    leaf: ClassVar[str] = "prompt"
    sentence: ClassVar[str] = "for profile {profile}"

    profile: str
    """The profile of the tools."""


class ToolCalled(ReplyTextEvent):
    """A model requested a tool call."""

    type: ClassVar[str] = "turnlog.tool-called.v1"
    leaf: ClassVar[str] = "tool"
    sentence: ClassVar[str] = "call {call} · {tool}[ as {alias}] {arguments}"
    reply_texts: ClassVar[tuple[str, ...]] = ("arguments", "signature")

    turn: int
    """The turn number."""
    call: str
    """The call whose answer requested it."""
    id: str
    """The provider's id of this request."""
    tool: str
    """The requested tool name, whether offered or not."""
    arguments: Words
    """Its arguments as the model wrote them."""
    step: int | None = None
    """The plan step it belongs to, if there is a plan."""
    alias: str | None = None
    """The name that the model called it by, if models do not take its own; prompts repeat it."""
    signature: Content | None = None
    """What the provider sent beside the call and wants back with it, such as the signature of its
    reasoning: a JSON object of the fields. None if it sent nothing.
    """


class ApprovalRequested(EventModel):
    """A tool waits for a person's decision; no tool of its answer runs before."""

    type: ClassVar[str] = "turnlog.approval-requested.v1"
    leaf: ClassVar[str] = "tool"
    sentence: ClassVar[str] = (
        "turn {turn} approval {approval} · call {call} · {tool} · until {deadline}"
    )

    turn: int
    """The turn number."""
    approval: int
    """Number of the approval within the turn, from 1."""
    call: str
    """The call whose answer requested the tool; with `id` it names the event with the arguments."""
    id: str
    """The provider's id of the tool request."""
    tool: str
    """The tool name."""
    deadline: str
    """Without a decision by then the tool is refused, RFC 3339."""


ApprovalDecision = Literal["approve", "refuse"]
"""What was decided about a tool that needs approval."""


class ApprovalDecided(ReplyTextEvent):
    """It is decided whether a tool may run; the deadline of the turn counts from here again."""

    type: ClassVar[str] = "turnlog.approval-decided.v1"
    leaf: ClassVar[str] = "turn.released"
    sentence: ClassVar[str] = (
        "turn {turn} approval {approval} · {tool} · {decision}[: {reason}]"
        "[ · by the {cause|when:deadline}][ · arguments edited to {edited}]"
    )
    reply_texts: ClassVar[tuple[str, ...]] = ("reason", "edited")

    turn: int
    """The turn number."""
    approval: int
    """Number of the approval within the turn."""
    call: str
    """The call whose answer requested the tool."""
    id: str
    """The provider's id of the tool request."""
    tool: str
    """The tool name."""
    decision: ApprovalDecision
    """Whether the tool may run; the envelope names who decided."""
    reason: Words = ""
    """The reason that was given; the model reads that of a refusal."""
    cause: Literal["person", "deadline"] = "person"
    """Whether a person decided, or the deadline passed."""
    shown: WordDigest | None = None
    """Digest of the arguments that the person was shown; None if the decision named none."""
    edited: Words | None = None
    """The arguments that the person wrote instead of the model's; None if they stay."""
    approved: WordDigest | None = None
    """Digest of the arguments that may run; None for a refusal, and in events of earlier releases.
    """


class ToolStarted(EventModel):
    """A worker is about to run a tool; from now on it may have run."""

    type: ClassVar[str] = "turnlog.tool-started.v1"
    leaf: ClassVar[str] = "tool"
    sentence: ClassVar[str] = "call {call} · {tool} · attempt {attempt}"

    turn: int
    """The turn number."""
    call: str
    """The call whose answer requested it."""
    id: str
    """The provider's id of this request."""
    tool: str
    """The tool name."""
    attempt: int
    """The attempt that runs it."""
    ran: WordDigest | None = None
    """Digest of the arguments it runs with, if a person approved them."""


class WholeResult(EventModel):
    """A result that is larger than one message; the media store has its text in chunks."""

    digest: Digest
    """SHA-256 of its text as UTF-8."""
    size: int
    """Number of bytes."""


class ToolReturned(EventModel):
    """A tool request ended: answered, failed, lost or refused."""

    type: ClassVar[str] = "turnlog.tool-returned.v1"
    leaf: ClassVar[str] = "tool"
    sentence: ClassVar[str] = (
        "call {call} · {tool} {outcome}[: {detail}]"
        "[ · {characters|count:character}][ · {treatment|when:condensed}]"
        "[ · whole in {whole.size|count:byte}, {whole.digest|digest}]"
    )

    turn: int
    """The turn number."""
    call: str
    """The call whose answer requested it."""
    id: str
    """The provider's id of this request."""
    tool: str
    """The tool name."""
    outcome: Literal["accepted", "refused", "answered", "failed", "lost"]
    """The session itself records `accepted` and `refused`. A server `answered` or `failed`. With
    `lost`, it is unknown whether the tool ran; it does not run again.
    """
    detail: Words = ""
    """Why it was refused, failed or lost."""
    text: Content | None = None
    """Text for prompts: the request and its result."""
    summary: Content | None = None
    """Shorter text for later turns, and for prompts without room for `text`."""
    brief: Content | None = None
    """Name, length and digest of the result, for prompts without room for more of it."""
    result: Digest | None = None
    """Blob of the complete result; None if there is none, or `whole` names it."""
    characters: int = 0
    """Length of the complete result in code points."""
    treatment: Literal["kept", "condensed"] = "kept"
    """Whether prompts include the complete result or a condensed one."""
    milliseconds: int | None = None
    """Duration of the server call; None if no server was called."""
    parts: tuple[MediaPart, ...] = ()
    """The pictures, recordings and files of the result, whose texts have a line for each."""
    whole: WholeResult | None = None
    """The complete result if it is larger than a message; the texts are then condensed."""


class PlanMade(EventModel):
    """A turn has a plan; its steps are the events that follow this one."""

    type: ClassVar[str] = "turnlog.plan-made.v1"
    leaf: ClassVar[str] = "turn"
    sentence: ClassVar[str] = "turn {turn} in {steps|count:step}"

    turn: int
    """The turn number."""
    call: str
    """The call whose answer is the plan."""
    steps: int
    """Number of steps; 0 if the question can be answered at once."""


class StepPlanned(ReplyTextEvent):
    """One step of a plan."""

    type: ClassVar[str] = "turnlog.step-planned.v1"
    leaf: ClassVar[str] = "turn"
    sentence: ClassVar[str] = "turn {turn} step {step} {goal|content}[ · known from event {given}]"
    reply_texts: ClassVar[tuple[str, ...]] = ("goal",)

    turn: int
    """The turn number."""
    step: int
    """Step number within the plan, from 1."""
    goal: Content
    """The goal in the model's words."""
    tools: tuple[str, ...] = ()
    """Tools the step may use; any offered tool if empty."""
    given: int | None = None
    """Sequence of a tool result of the previous turn that already satisfies the step; no call is
    made.
    """
    loop: int | None = None
    """Sequence of a tool result of the previous turn over whose rows the plan loops; the step is
    for one row, which its goal quotes.
    """


KnownToolEvent = (
    ToolsSnapshotted
    | ToolListChanged
    | SchemasRequested
    | PlanMade
    | StepPlanned
    | ToolCalled
    | ApprovalRequested
    | ApprovalDecided
    | ToolStarted
    | ToolReturned
)
"""The events of plans, tools and approvals that this release writes and reads."""
