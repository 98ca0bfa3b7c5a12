from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from turnlog.events.call import AttemptFault
from turnlog.events.content import Digest
from turnlog.events.manifest import Manifest
from turnlog.events.prompt import PromptFile
from turnlog.events.session import BlueprintRef, SessionOrigin, SessionOpened
from turnlog.events.tokens import ToolRequest
from turnlog.events.turn import FinishReason
from turnlog.projections.blueprint.asking import ReferencesSpec
from turnlog.projections.blueprint.phases import PhaseGraph
from turnlog.projections.blueprint.schema import Policies
from turnlog.projections.session.attempting import AttemptRef as AttemptRef  # noqa: PLC0414 re-exported
from turnlog.projections.session.attempting import AttemptUsage as AttemptUsage  # noqa: PLC0414 re-exported
from turnlog.projections.session.memory_commands import MemoryCommand
from turnlog.projections.session.phase_commands import (
    EnterPhase as EnterPhase,  # noqa: PLC0414 re-exported
)
from turnlog.projections.session.phase_commands import (
    RecordChoice as RecordChoice,  # noqa: PLC0414 re-exported
)
from turnlog.projections.session.phase_commands import (
    SendSignal as SendSignal,  # noqa: PLC0414 re-exported
)
from turnlog.projections.session.phase_commands import (
    SwitchProfile as SwitchProfile,  # noqa: PLC0414 re-exported
)
from turnlog.projections.session.references import ResolvedReferences
from turnlog.projections.session.turn_commands import (
    AnswerCall,
    DisplayTurn,
    RequestSchemas,
    ReturnTool,
    SnapshotTools,
    StartTool,
)

JsonObject = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Open a session with a blueprint."""

    blueprint: BlueprintRef
    profile: str
    reach: int
    attributes: JsonObject = field(default_factory=dict[str, JsonValue])
    cartridge: Digest | None = None
    phases: PhaseGraph | None = None
    origin: SessionOrigin | None = None
    key: dict[str, str] = field(default_factory=dict[str, str])
    memory: Digest | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ForkSession:
    """Open a session that continues from a point in another session."""

    opened: SessionOpened
    """The opening event of the origin, with the origin set."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class CancelTurn:
    """Cancel an open or waiting turn; without a number, the open one."""

    turn: int | None = None


@dataclass(frozen=True, slots=True)
class MoveBlueprint:
    """Move the session to another version of its blueprint, with the versions it pins."""

    blueprint: BlueprintRef
    reach: int
    attributes: JsonObject
    """Attributes of the opening, as the new version validates them."""
    profiles: Container[str]
    """Profiles of the new version."""
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


@dataclass(frozen=True, slots=True)
class ExcludeTurn:
    """Leave a turn out of every later window."""

    turn: int


@dataclass(frozen=True, slots=True)
class RestoreTurn:
    """Include an excluded turn in windows again."""

    turn: int


@dataclass(frozen=True, slots=True)
class RedactReply:
    """Redact a reply; later windows show the replacement."""

    turn: int
    reason: str
    rule: str
    replacement: str


@dataclass(frozen=True, slots=True)
class ClaimTurn:
    """Claim the turn for a worker, as its next attempt."""

    turn: int
    worker: str
    policies: Policies
    partial: str = ""
    """What is still known of the tokens that the lost attempt had published."""


@dataclass(frozen=True, slots=True)
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
    meta: JsonObject = field(default_factory=dict[str, JsonValue])


@dataclass(frozen=True, slots=True)
class FallBack:
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
    references: ReferencesSpec | None = None


@dataclass(frozen=True, slots=True)
class SnapshotPrompts:
    """Pin the prompt files of the session."""

    attempt: AttemptRef
    provider: str
    layers: dict[str, PromptFile]


@dataclass(frozen=True, slots=True)
class FixContext:
    """Record the prompt of a call."""

    attempt: AttemptRef
    model: str
    parameters: JsonObject
    manifest: Manifest
    supersedes: str | None = None


@dataclass(frozen=True, slots=True)
class WithheldAnswer:
    """A refused answer: the rule that refused it, its replacement, and the blob that holds it."""

    reason: str
    rule: str
    replacement: str
    blob: Digest


@dataclass(frozen=True, slots=True)
class CompleteTurn:
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


@dataclass(frozen=True, slots=True)
class EndAttempt:
    """End an attempt that gave no answer; `then` says how the turn goes on.

    `retry` starts the next attempt in the same batch, `fail` fails the turn, and `release` leaves
    the turn to the next claim.
    """

    attempt: AttemptRef
    outcome: Literal["failed", "cancelled", "lost", "unasked"]
    spent: AttemptUsage
    then: Literal["retry", "fail", "release"]
    fault: AttemptFault | None = None
    partial: str = ""


Command = (
    OpenSession
    | ForkSession
    | SubmitTurn
    | RecordChoice
    | SendSignal
    | EnterPhase
    | SwitchProfile
    | CancelTurn
    | CloseSession
    | MoveBlueprint
    | ExcludeTurn
    | RestoreTurn
    | DisplayTurn
    | RedactReply
    | ClaimTurn
    | ResolveTurn
    | FallBack
    | SnapshotPrompts
    | FixContext
    | SnapshotTools
    | RequestSchemas
    | StartTool
    | ReturnTool
    | AnswerCall
    | MemoryCommand
    | CompleteTurn
    | EndAttempt
)
