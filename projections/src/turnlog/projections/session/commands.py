"""Commands: what may be requested of a session, each with all that its rule needs but the time."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.events.model.attempt_figures import AttemptUsage
from turnlog.events.model.call_events import AttemptFault
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.manifest import Manifest
from turnlog.events.model.memory_events import SummaryBegun
from turnlog.events.model.override_events import UserOverride
from turnlog.events.model.prompt_events import PromptFile, ProviderPrompts
from turnlog.events.model.retrieval_events import (
    KnowledgeRetrieved,
)
from turnlog.events.model.session_events import BlueprintRef, SessionOpened, SessionOrigin
from turnlog.events.model.tool_events import ApprovalDecision, ToolReturned, ToolsSnapshotted
from turnlog.events.model.turn_events import FinishReason, InputFinding, TurnRole
from turnlog.events.tokens import ToolRequest
from turnlog.projections.blueprint.schema.lookups.resolver_specs import ReferencesSpec
from turnlog.projections.blueprint.schema.phase_specs import PhaseGraph
from turnlog.projections.blueprint.schema.policy_specs import CutTurnPolicy, Policies
from turnlog.projections.blueprint.storable_json import JsonObject
from turnlog.projections.quotas.turn_bound import TurnBound
from turnlog.projections.session.child_commands import ChildCommand
from turnlog.projections.session.open_turn import (
    NOTHING_KEPT,
    AnswerRejection,
    CutReply,
    WithheldAnswer,
)
from turnlog.projections.session.reference_inheritance import ResolvedReferences
from turnlog.projections.session.session_description import NO_DESCRIPTION, SessionDescription
from turnlog.projections.session.session_owner import ShareSession
from turnlog.projections.session.tool_uses import ToolUse
from turnlog.projections.session.turn_commands import (
    BeginErasure,
    DisplayTurn,
    EndErasure,
    GiveEntryFeedback,
    GiveFeedback,
    RedactReply,
    RedactText,
    RedactTurn,
)
from turnlog.projections.tools.parsed_plan import ParsedPlan


@dataclass(frozen=True, slots=True)
class AttemptRef:
    """The claim a worker acts under.

    The claim is a lease, and `attempt` is its fencing token. A superseded attempt may still report
    what it cost, and nothing else.
    """

    turn: int
    call: str
    attempt: int


@dataclass(frozen=True, slots=True)
class RecordChoice:
    """Make a choice in a phase that offers choices."""

    choice: str
    phases: PhaseGraph


@dataclass(frozen=True, slots=True)
class SendSignal:
    """End the phase with a signal it offers, without a model."""

    signal: str
    phases: PhaseGraph


@dataclass(frozen=True, slots=True)
class EnterPhase:
    """Move to a phase by name, and optionally carry a text over to it."""

    phase: str
    phases: PhaseGraph
    carry: str | None = None


@dataclass(frozen=True, slots=True)
class SwitchProfile:
    """Switch the session to another profile or another model."""

    profile: str
    profiles: Collection[str]
    """Profiles of the blueprint."""
    model: str | None = None
    """The model to use, or None for the profile's own."""
    allowed_models: Collection[str] = ()
    """Models that the blueprint allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptProduct:
    """What an attempt produced beside the text of its answer, or of what was shown of it."""

    reasoning: str = ""
    """What the model reasoned, as it is recorded; empty if nothing of it came."""
    parts: tuple[MediaPart, ...] = ()
    """The pictures, recordings and files of that text, which has a line for each."""


@dataclass(frozen=True, slots=True)
class BeginSummary:
    """Have older turns summarised before the turn continues."""

    attempt: AttemptRef
    begun: SummaryBegun


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSummary:
    """Record the answer of the summary call; the turn continues."""

    attempt: AttemptRef
    text: str
    finish: FinishReason
    spent: AttemptUsage
    model: str
    """Model name as it was passed to litellm."""
    reasoning: str = ""
    """What the model reasoned, as it is recorded; empty if nothing of it came."""


@dataclass(frozen=True, slots=True)
class GiveUpSideCall:
    """Record that a call failed which its turn can do without."""

    attempt: AttemptRef
    spent: AttemptUsage
    fault: AttemptFault
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class GiveUpSummary(GiveUpSideCall):
    """Record that the summary call failed; the turn continues without a summary."""


@dataclass(frozen=True, slots=True)
class UndoSummary:
    """Take a summary out of force."""

    sequence: int
    """Sequence of the event that holds it."""


@dataclass(frozen=True, slots=True)
class PurgeMemory:
    """Hide all turns so far from later windows."""


MemoryCommand = BeginSummary | RecordSummary | GiveUpSummary | UndoSummary | PurgeMemory


@dataclass(frozen=True, slots=True)
class RequestQueries:
    """Have a model write the queries of a retrieval before the turn continues."""

    attempt: AttemptRef
    retrieval: str


@dataclass(frozen=True, slots=True)
class GiveUpQueries(GiveUpSideCall):
    """Record that the call for queries failed; the turn continues without them."""


@dataclass(frozen=True, slots=True)
class RecordRetrieval:
    """Record what the open turn took from the knowledge, before the call that uses it."""

    attempt: AttemptRef
    retrieved: KnowledgeRetrieved


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCall(AttemptProduct):
    """Record a call's answer after which the turn continues with another call."""

    attempt: AttemptRef
    text: str
    finish: FinishReason
    spent: AttemptUsage
    tools: tuple[ToolRequest, ...] = ()
    """Tool calls that the answer requested."""
    argument_faults: Mapping[int, str] = field(default_factory=dict[int, str])
    """What is wrong with the arguments of tools by their schemas, by position from 1."""
    offered_tools: Container[str] = ()
    """Names of the tools that were offered."""
    max_tools: int = 0
    """How many tool calls one answer may request."""
    plan: ParsedPlan | None = None
    """The plan in the answer; None where the call was not a plan call."""
    repairs: tuple[str, ...] = ()
    """Repairs that were needed to parse the answer."""
    has_used_rounds: bool = False
    """Whether all its tools are refused, because the turn has had its rounds of tool calls."""
    approval_seconds: float = 0.0
    """How long a person has to approve its tools that need it."""
    children: frozenset[str] = frozenset()
    """The offered tools that are child profiles."""
    shown: str = ""
    """What was shown of the answer, for an attempt that was superseded."""


@dataclass(frozen=True, slots=True)
class SnapshotTools:
    """Pin the tools of a profile; `pins_changes` says whether also in place of another list."""

    attempt: AttemptRef
    offered: ToolsSnapshotted
    pins_changes: bool = False


@dataclass(frozen=True, slots=True)
class RequestSchemas:
    """Disclose the tools of the current profile in full again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideApproval:
    """Approve or refuse a tool that waits for it."""

    turn: int
    approval: int
    """Number of the approval within the turn."""
    decision: ApprovalDecision
    reason: str = ""
    shown: Digest | None = None
    """Digest of the arguments that the person was shown."""
    edited: str | None = None
    """The arguments that the person wrote instead; they are valid for the tool."""
    failed_policy: CutTurnPolicy = "keep_partial"
    """What later prompts include of a turn that fails instead of going on."""


@dataclass(frozen=True, slots=True)
class StartTool:
    """Record that a tool is about to run."""

    attempt: AttemptRef
    use: ToolUse
    ran: Digest | None = None
    """Digest of the arguments it runs with, if a person approved them."""


@dataclass(frozen=True, slots=True)
class ReturnTool:
    """Record the outcome of a tool call."""

    attempt: AttemptRef
    use: ToolUse
    returned: ToolReturned


ToolCommand = SnapshotTools | RequestSchemas | DecideApproval | StartTool | ReturnTool


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSession:
    """Open a session with a blueprint."""

    blueprint: BlueprintRef
    profile: str
    """The blueprint's default profile."""
    reach: int
    attributes: JsonObject = field(default_factory=dict[str, JsonValue])
    cartridge: Digest | None = None
    phases: PhaseGraph | None = None
    origin: SessionOrigin | None = None
    key: dict[str, str] = field(default_factory=dict[str, str])
    memory: Digest | None = None
    warnings: tuple[str, ...] = ()
    requested_profile: str | None = None
    """The profile the caller requests instead of the start phase's or the default one."""
    description: SessionDescription = NO_DESCRIPTION
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class ForkSession:
    """Open a session that continues from a point in another session."""

    opened: SessionOpened
    """The opening event of the origin, with the origin set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitTurn:
    """Submit a turn; without a text, retry a debrief."""

    text: str | None
    policies: Policies
    phases: PhaseGraph | None = None
    inputs: JsonObject = field(default_factory=dict[str, JsonValue])
    references: JsonObject = field(default_factory=dict[str, JsonValue])
    meta: JsonObject = field(default_factory=dict[str, JsonValue])
    remembered: bool = True
    """Whether later prompts may include this turn."""
    role: TurnRole = "user"
    """`system` records a text of the application, which gets no reply."""
    user: str | None = None
    """Who asked."""
    bound: TurnBound | None = None
    """What the turn may use at most of the user's quota; None if it makes no calls."""
    has_fallback: bool = False
    """Whether its resolver can answer it without a model."""
    overrides: tuple[UserOverride, ...] = ()
    """The user's own prompts for the session's blueprint."""
    findings: tuple[InputFinding, ...] = ()
    """What the rules of `input_safety` masked or noted."""
    parts: tuple[MediaPart, ...] = ()
    """Pictures, recordings and files beside the text."""
    cut: CutReply = NOTHING_KEPT
    """The reply of the open turn, where this one interrupts it."""


@dataclass(frozen=True, slots=True)
class CancelTurn:
    """Cancel an open or waiting turn; without a number, the open one."""

    turn: int | None = None
    cut: CutReply = NOTHING_KEPT
    """The reply of the open turn, where that is the one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveBlueprint:
    """Move the session to another version of its blueprint, with the versions it pins."""

    blueprint: BlueprintRef
    reach: int
    attributes: JsonObject
    """Attributes of the opening, as the new version validates them."""
    profiles: Container[str]
    """Profiles of the new version."""
    allowed_models: Container[str] = ()
    """Models that the new version allows."""
    current_phases: PhaseGraph | None = None
    """Phase graph of the current version."""
    phases: PhaseGraph | None = None
    """Phase graph of the new version."""
    cartridge: Digest | None = None
    memory: Digest | None = None
    warnings: tuple[str, ...] = ()
    stale: bool = False
    """Whether a prompt file differs from its pinned text."""


@dataclass(frozen=True, slots=True)
class CloseSession:
    """Accept no more turns; cancel the open and the waiting ones."""

    reason: str
    cut: CutReply = NOTHING_KEPT


@dataclass(frozen=True, slots=True)
class DescribeSession:
    """Change the title, the labels or the metadata; what is not stated stays as it is."""

    description: SessionDescription


@dataclass(frozen=True, slots=True)
class ExcludeTurn:
    """Leave a turn out of every later window."""

    turn: int


@dataclass(frozen=True, slots=True)
class RestoreTurn:
    """Include an excluded turn in windows again."""

    turn: int


@dataclass(frozen=True, slots=True)
class ClaimTurn:
    """Claim the turn for a worker, as its next attempt."""

    turn: int
    worker: str
    policies: Policies
    partial: str = ""
    """The text of the tokens of the latest attempt that are still stored."""


@dataclass(frozen=True, slots=True)
class FailBrokenTurn:
    """Fail a turn that is past its deadline, and whose handling raises an error each time."""

    turn: int
    policies: Policies
    partial: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveTurn:
    """Record the resolver's answer for the turn."""

    attempt: AttemptRef
    resolver: str
    references: ResolvedReferences
    results: str
    """The results, as JSON."""
    answer: str
    """The answer that is used where no model answers."""
    intent: str | None = None
    entity: str | None = None
    found: bool = True
    """Whether the entity exists."""
    meta: JsonObject = field(default_factory=dict[str, JsonValue])


@dataclass(frozen=True, slots=True, kw_only=True)
class FallBack(AttemptProduct):
    """Answer the turn without a model."""

    attempt: AttemptRef
    text: str
    spent: AttemptUsage
    code: str
    """Short code of why no model answers."""
    detail: str
    fault: AttemptFault | None = None
    """The model's fault; None where no model was called."""
    partial: str = ""
    rejection: AnswerRejection | None = None
    """The model's answer, where it did not have the required form."""
    references: ReferencesSpec | None = None


@dataclass(frozen=True, slots=True)
class SnapshotPrompts:
    """Pin the prompt files of the session."""

    attempt: AttemptRef
    provider: str
    layers: dict[str, PromptFile]
    others: dict[str, ProviderPrompts] = field(default_factory=dict[str, ProviderPrompts])
    """How the files of other providers differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixContext:
    """Record the prompt of a call."""

    attempt: AttemptRef
    model: str
    parameters: JsonObject
    manifest: Manifest
    supersedes: str | None = None
    body_digest: Digest | None = None
    """Digest of the body that is sent; None where litellm writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteTurn(AttemptProduct):
    """Record the final answer, and complete the turn with it."""

    attempt: AttemptRef
    text: str
    """The answer, even where it is withheld."""
    finish: FinishReason
    spent: AttemptUsage
    phases: PhaseGraph | None = None
    tools: tuple[ToolRequest, ...] = ()
    withheld: WithheldAnswer | None = None
    references: ReferencesSpec | None = None
    raw: str | None = None
    """The model's original text, where `text` is a repaired form of it."""
    repairs: tuple[str, ...] = ()
    work: str | None = None
    """Summary of how the turn was worked out, where later prompts include it."""
    excludes_filtered: bool = False
    """Whether the turn is excluded from windows if a filter of the provider cut the answer."""
    structured: bool = False
    """Whether the text is JSON that matches the schema of its call."""
    shown: str = ""
    """What was shown of the answer, for an attempt that was superseded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndAttempt(AttemptProduct):
    """End an attempt without an answer; `then` decides how the turn continues.

    `retry` starts the next attempt in the batch, `fail` fails the turn, `release` ends the claim.
    """

    attempt: AttemptRef
    outcome: Literal["failed", "cancelled", "lost", "unasked"]
    spent: AttemptUsage
    then: Literal["retry", "fail", "release"]
    fault: AttemptFault | None = None
    partial: str = ""
    failed_policy: CutTurnPolicy = "keep_partial"
    """What later prompts include of a turn that fails."""
    rejection: AnswerRejection | None = None
    """The answer, where it did not have the required form."""


AttemptCommand = (
    ClaimTurn
    | FailBrokenTurn
    | ResolveTurn
    | FallBack
    | SnapshotPrompts
    | RequestQueries
    | GiveUpQueries
    | RecordRetrieval
    | FixContext
    | AnswerCall
    | CompleteTurn
    | EndAttempt
)
"""Commands of the worker that has received a turn, and mostly has claimed it."""

TurnCommand = (
    SubmitTurn
    | CancelTurn
    | CloseSession
    | DescribeSession
    | ShareSession
    | ExcludeTurn
    | RestoreTurn
    | DisplayTurn
    | RedactReply
    | BeginErasure
    | EndErasure
    | RedactText
    | RedactTurn
    | GiveFeedback
    | GiveEntryFeedback
)
"""Commands of clients on a session and its turns."""

PhaseCommand = RecordChoice | SendSignal | EnterPhase | SwitchProfile
"""Commands of clients on the phase of a session, or its profile."""

Command = (
    OpenSession
    | ForkSession
    | MoveBlueprint
    | TurnCommand
    | PhaseCommand
    | AttemptCommand
    | ToolCommand
    | ChildCommand
    | MemoryCommand
)
