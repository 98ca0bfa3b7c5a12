"""Commands: what may be asked of a session, by callers and by workers.

A command says what is wanted and brings everything its rule needs, except the time. The rules
themselves are in `decide`.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from turnlog.events.call import Fault
from turnlog.events.content import Digest
from turnlog.events.manifest import Manifest
from turnlog.events.prompt import PromptFile
from turnlog.events.session import BlueprintRef, Origin, SessionOpened
from turnlog.events.tokens import ToolRequest
from turnlog.events.turn import Finish
from turnlog.projections.blueprint.asking import ReferencesSpec
from turnlog.projections.blueprint.phases import PhaseGraph
from turnlog.projections.blueprint.schema import Policies
from turnlog.projections.session.attempting import Attempt as Attempt  # noqa: PLC0414 re-exported
from turnlog.projections.session.attempting import Spent as Spent  # noqa: PLC0414 re-exported
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
from turnlog.projections.session.references import Meant
from turnlog.projections.session.turn_commands import (
    AnswerCall,
    DisplayTurn,
    RequestSchemas,
    ReturnTool,
    SnapshotTools,
    StartTool,
)

Values = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Open a session by a blueprint."""

    blueprint: BlueprintRef
    profile: str
    reach: int
    attributes: Values = field(default_factory=dict[str, JsonValue])
    cartridge: Digest | None = None
    phases: PhaseGraph | None = None
    origin: Origin | None = None
    key: dict[str, str] = field(default_factory=dict[str, str])
    memory: Digest | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ForkSession:
    """Open a session that goes on from a place in another one."""

    opened: SessionOpened
    """As its origin was opened, and where it comes from."""


@dataclass(frozen=True, slots=True)
class SubmitTurn:
    """Put something to the session; without a text, have a debrief again."""

    text: str | None
    policies: Policies
    phases: PhaseGraph | None = None
    inputs: Values = field(default_factory=dict[str, JsonValue])
    references: Values = field(default_factory=dict[str, JsonValue])
    meta: Values = field(default_factory=dict[str, JsonValue])
    remembered: bool = True
    """Whether later turns may be told of it."""


@dataclass(frozen=True, slots=True)
class CancelTurn:
    """Give up an open or waiting turn; without a number, the open one."""

    turn: int | None = None


@dataclass(frozen=True, slots=True)
class MoveBlueprint:
    """Let the session run by another version of its blueprint, with what that is pinned to."""

    blueprint: BlueprintRef
    reach: int
    attributes: Values
    """Those of its opening, as the new version takes them."""
    profiles: Container[str]
    """Those the new version has."""
    leaving: PhaseGraph | None = None
    """The state machine it has run by."""
    phases: PhaseGraph | None = None
    """The one it is to run by."""
    cartridge: Digest | None = None
    memory: Digest | None = None
    warnings: tuple[str, ...] = ()
    stale: bool = False
    """Whether a prompt file says something else than what is pinned of it."""


@dataclass(frozen=True, slots=True)
class CloseSession:
    """Let nothing more be submitted; open and waiting turns are cancelled."""

    reason: str


@dataclass(frozen=True, slots=True)
class ExcludeTurn:
    """Leave a turn out of every window from now on."""

    turn: int


@dataclass(frozen=True, slots=True)
class RestoreTurn:
    """Let an excluded turn stand in windows again."""

    turn: int


@dataclass(frozen=True, slots=True)
class RedactReply:
    """Withhold a reply; the replacement stands in its place."""

    turn: int
    reason: str
    rule: str
    replacement: str


@dataclass(frozen=True, slots=True)
class ClaimTurn:
    """Take the turn for a worker, with the next attempt."""

    turn: int
    worker: str
    policies: Policies
    partial: str = ""
    """What an attempt that went silent had said so far, as far as it is still known."""


@dataclass(frozen=True, slots=True)
class ResolveTurn:
    """Record what a resolver said of the turn."""

    attempt: Attempt
    resolver: str
    meant: Meant
    results: str
    """What was found, as JSON."""
    answer: str
    """What is answered where no model answers."""
    intent: str | None = None
    entity: str | None = None
    meta: Values = field(default_factory=dict[str, JsonValue])


@dataclass(frozen=True, slots=True)
class FallBack:
    """Answer the turn without a model."""

    attempt: Attempt
    text: str
    spent: Spent
    code: str
    """Why no model answers, in one word."""
    detail: str
    fault: Fault | None = None
    """Why the model did not; none where none was asked."""
    partial: str = ""
    references: ReferencesSpec | None = None


@dataclass(frozen=True, slots=True)
class SnapshotPrompts:
    """Pin the prompt files of the session."""

    attempt: Attempt
    provider: str
    layers: dict[str, PromptFile]


@dataclass(frozen=True, slots=True)
class FixContext:
    """Record the prompt of a call."""

    attempt: Attempt
    model: str
    parameters: Values
    manifest: Manifest
    supersedes: str | None = None


@dataclass(frozen=True, slots=True)
class Withheld:
    """The answer may not be said; what stands for it, and where it lies."""

    reason: str
    rule: str
    replacement: str
    blob: Digest


@dataclass(frozen=True, slots=True)
class CompleteTurn:
    """The call has its answer, and with it the turn."""

    attempt: Attempt
    text: str
    """The answer; also when it is withheld."""
    finish: Finish
    spent: Spent
    phases: PhaseGraph | None = None
    tools: tuple[ToolRequest, ...] = ()
    withheld: Withheld | None = None
    references: ReferencesSpec | None = None
    raw: str | None = None
    """What was answered word for word, where the text is what it came to once it was mended."""
    repairs: tuple[str, ...] = ()
    work: str | None = None
    """How the turn was worked out, where later ones are told."""


@dataclass(frozen=True, slots=True)
class EndAttempt:
    """The attempt did not answer. With `then` the turn goes on or ends with it.

    `retry` starts the next attempt in the same batch, `fail` fails the turn, `release` leaves
    it to whoever claims it next.
    """

    attempt: Attempt
    outcome: Literal["failed", "cancelled", "lost", "unasked"]
    spent: Spent
    then: Literal["retry", "fail", "release"]
    fault: Fault | None = None
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
