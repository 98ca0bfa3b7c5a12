"""The frozen state of a session: what the rules and prompt assembly need, and nothing more.

The state refers to events instead of repeating their text. Its size is bounded by the widest
window: recent turns are kept one by one, older ones as runs. A turn in a session of ten thousand
turns therefore costs the same as in a session of ten. Runtime snapshots store the state as JSON by
field name, so a renamed field needs a new `FOLD_VERSION`. Classes that the fold replaces have no
slots, because `frozen_copies` copies their `__dict__`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.events.envelope import ChainHead
from turnlog.events.model.prompt_events import PromptFile
from turnlog.events.model.session_events import BlueprintRef, SessionOrigin, SharedAccess
from turnlog.events.model.tool_events import ToolsSnapshotted
from turnlog.events.model.turn_events import TurnRole
from turnlog.projections.session.open_turn import OpenTurn, TurnSubmission
from turnlog.projections.session.text_refs import InputsRef, MediaRef, ReasoningRef, TextRef
from turnlog.projections.session.token_counts import CountCorrection
from turnlog.projections.session.tool_uses import PriorToolResults
from turnlog.projections.session.turn_summaries import HistorySummary

FOLD_VERSION: Final = 30
"""Raise it whenever the fold yields another state for the same events; this voids old snapshots."""

MAX_RECENT_TURNS: Final = 512
"""Most turns kept one by one. Only a view of the whole history reaches further back."""

UNBOUNDED_REACH: Final = -1
"""Value of `reach` for a state that keeps every turn one by one."""

FARTHEST_REACH: Final = -2
"""Value of `reach` for a state that keeps `MAX_RECENT_TURNS` turns, however long they are."""

MAX_CARRIED_TEXTS: Final = 16
"""Most texts kept that were carried into phases left since."""

MAX_REFERENCES: Final = 16
"""Most turns whose references are kept: an excluded turn leaves them to the one before it."""

MAX_IDEMPOTENCY_RECORDS: Final = 64
"""Idempotency records kept in the state; older ones are looked up in the read model."""

SettledStatus = Literal["completed", "failed", "cancelled"]

TextRedaction = Literal["part", "whole"]
"""How much of what a person submitted with a turn is withheld."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledTurnRef:
    """A settled turn; the standard `replace` changes it, since `frozen_copies` derives nothing."""

    turn: int
    status: SettledStatus
    text: TextRef | None
    reply: TextRef | None
    """The reply that windows show, or the replacement of a redacted one."""
    excluded: bool = False
    redacted: bool = False
    phase: str | None = None
    """The phase of the session at the time."""
    work: TextRef | None = None
    """The work summary of a turn of several calls; None where the reply is redacted."""
    request: str = ""
    """Id of the event that submitted or queued the turn."""
    intent: str | None = None
    """The intent that the resolver recognised."""
    entity: str | None = None
    """Kind of thing the turn is about, as the resolver named it."""
    role: TurnRole = "user"
    """Whose text it is; a turn of the system has no reply."""
    outcomes: TextRef | None = None
    """The tools that ran, each with its outcome; None if none did."""
    results: tuple[TextRef, ...] = ()
    """The tool results that windows include with the outcomes."""
    shows_outcomes: bool = False
    """Whether windows include the outcomes, since no reply of a model mentions them."""
    media: tuple[MediaRef, ...] = ()
    """The pictures, recordings and files beside its text."""
    is_kept: bool = False
    """Whether windows include a turn that was cancelled or failed; its reply says that it was."""
    reasoning: ReasoningRef | None = None
    """What the model reasoned before the reply; None if that is not on record, or was redacted."""
    text_redaction: TextRedaction | None = None
    """How much of its text is withheld; then `text` is the replacement."""
    submission: InputsRef | None = None
    """The event that submitted it, where its text is withheld; None if `text` refers to it."""
    characters: int = field(init=False, repr=False, compare=False)
    """Characters the turn takes in a window; 0 when no window includes it."""

    def __post_init__(self) -> None:
        # Computed once, because every fold and every prompt adds up the turns of a window.
        text, reply = self.text, self.reply
        size = (text.characters if text else 0) + (reply.characters if reply else 0)
        size += sum([ref.characters for ref in self.outcome_refs])
        is_shown = self.is_usable and not self.excluded
        object.__setattr__(self, "characters", size if is_shown else 0)

    @property
    def outcome_refs(self) -> tuple[TextRef, ...]:
        """The outcomes of tools that windows include, then the results; empty if none."""
        return (self.outcomes, *self.results) if self.outcomes and self.shows_outcomes else ()

    @property
    def is_usable(self) -> bool:
        """Whether it has anything for a window: a reply, whole or cut, or outcomes of tools."""
        has_reply = self.status == "completed" or self.is_kept
        return has_reply or bool(self.outcomes and self.shows_outcomes)


@dataclass(frozen=True, kw_only=True)
class SettledTurnRun:
    """Consecutive older settled turns that share status, marks, phase and role."""

    first: int
    last: int
    status: SettledStatus
    excluded: bool
    redacted: bool
    phase: str | None = None
    role: TurnRole = "user"
    shows_outcomes: bool = False
    """Whether windows include the outcomes of tools that ran."""
    is_kept: bool = False
    """See `SettledTurnRef.is_kept`."""
    text_redaction: TextRedaction | None = None
    """See `SettledTurnRef.text_redaction`."""

    @property
    def is_usable(self) -> bool:
        """See `SettledTurnRef.is_usable`."""
        return self.status == "completed" or self.is_kept or self.shows_outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnReference:
    """What an answered turn was about; later turns may inherit from it unless it is excluded."""

    turn: int
    """Number of that turn."""
    identifiers: dict[str, JsonValue]
    """Identifiers that may be inherited, by name."""
    intent: str | None
    """Its intent."""
    entity: str | None
    """The kind of thing it was about."""
    at: str
    """When it was recorded, RFC 3339."""


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """A command that was carried out; the same key with the same body gets the same answer."""

    key: str
    hash: Digest
    sequence: int
    turn: int | None


@dataclass(frozen=True, slots=True)
class PhaseChoice:
    """A choice made in a static phase."""

    phase: str
    """The phase that offered it."""
    choice: str
    """The choice."""
    label: str | None
    """The text of the choice in prompts."""


@dataclass(frozen=True, slots=True)
class CarriedText:
    """A text that was carried into a phase, and belongs to it as its turns do."""

    phase: str
    """The phase it was carried into."""
    text: TextRef


@dataclass(frozen=True)
class RedactionNote:
    """A redaction that the next turn's prompts must mention."""

    turn: int
    """The turn of which something was redacted."""
    told: int | None = None
    """The turn whose prompts carry the note; None until the first such prompt is recorded."""


DisclosureReason = Literal["first_turn", "asked", "purged"]
"""Why tools are described in full."""


@dataclass(frozen=True, slots=True)
class ToolDisclosure:
    """How long the tools of a profile are described in full."""

    until: int
    """Full description applies while no more turns than this are completed."""
    why: DisclosureReason


@dataclass(frozen=True, kw_only=True)
class SessionState:
    """The state of a session after its `head`."""

    tenant: str
    session: str
    head: ChainHead
    opened: ChainHead
    """Head after the opening event."""
    blueprint: BlueprintRef
    profile: str
    """Profile of the next turn."""
    attributes: dict[str, JsonValue]
    reach: int
    """Characters of history in the widest window; 0 means no limit."""
    cartridge: Digest | None = None
    """Digest of the session's task data."""
    model: str | None = None
    """Model that the caller chose instead of the profile's own."""
    phase: str | None = None
    """Current phase, where the blueprint has phases."""
    exchanges: int = 0
    """Turns completed in the current phase."""
    visited: tuple[str, ...] = ()
    """Phases entered so far, each once, in the order of first entry."""
    carried: TextRef | None = None
    """Text that the caller carried into the current phase when it was entered."""
    carried_before: tuple[CarriedText, ...] = ()
    """Texts carried into the phases left since, oldest first."""
    choices: tuple[PhaseChoice, ...] = ()
    """Choices made so far."""
    note: RedactionNote | None = None
    """The latest redaction of a reply that a prompt may still have to mention."""
    text_note: RedactionNote | None = None
    """The latest redaction of a person's text that a prompt may still have to mention."""
    closed: bool = False
    prompts: dict[str, dict[str, PromptFile]] = field(
        default_factory=dict[str, dict[str, PromptFile]]
    )
    """Provider to layer to pinned prompt file."""
    tools: dict[str, ToolsSnapshotted] = field(default_factory=dict[str, ToolsSnapshotted])
    """Profile to pinned tools."""
    unpinned_lists: dict[str, Digest] = field(default_factory=dict[str, Digest])
    """Profile to the digest of the other list of its servers that was recorded and not pinned."""
    telling: dict[str, ToolDisclosure] = field(default_factory=dict[str, ToolDisclosure])
    """Profile to how long its tools are disclosed in full."""
    turns: tuple[SettledTurnRef, ...] = ()
    """Recent settled turns, oldest first."""
    earlier: tuple[SettledTurnRun, ...] = ()
    """Older settled turns, as runs."""
    open: OpenTurn | None = None
    waiting: tuple[TurnSubmission, ...] = ()
    """Turns that are queued behind the open one."""
    submitted: int = 0
    """Number of turns so far, with any outcome."""
    called: dict[str, int] = field(default_factory=dict[str, int])
    """Kind of call to the stream position of the latest prompt of that kind."""
    corrections: dict[str, dict[str, CountCorrection]] = field(
        default_factory=dict[str, dict[str, CountCorrection]]
    )
    """Kind of call to model to what its provider's counts say of ours; the latest model last."""
    completed: int = 0
    """Number of turns that got a reply."""
    returns: PriorToolResults | None = None
    """Tool results of the latest completed turn, or None where it had none."""
    commands: tuple[IdempotencyRecord, ...] = ()
    """The latest commands with an idempotency key, oldest first."""
    forgotten_commands: int = 0
    """Number of commands dropped from `commands`."""
    memory: Digest | None = None
    """Digest of the pinned memory policy."""
    summaries: tuple[HistorySummary, ...] = ()
    """Summaries in force, oldest first."""
    whole: dict[str, int] = field(default_factory=dict[str, int])
    """View to the number of turns there were when a caller last undid a summary of it."""
    purged: int = 0
    """Last turn hidden by a purge of memory; 0 before the first purge."""
    references: tuple[TurnReference, ...] = ()
    """What answered turns were about, oldest first; those of excluded turns too."""
    warnings: tuple[str, ...] = ()
    """Warnings about the files of the blueprint."""
    attributes_in: int = 1
    """Sequence of the event that set the attributes: the opening or the latest move."""
    origin: SessionOrigin | None = None
    """The parent or the fork origin of the session, if it has one."""
    drawn: str | None = None
    """Session id that prompt variants are drawn by, where it is not the session's own."""
    children: dict[str, int] = field(default_factory=dict[str, int])
    """Child session to the number of turns that this session asked it for."""
    title: TextRef | None = None
    """The title that was given, if there is one."""
    labels: tuple[str, ...] = ()
    """The labels, each once."""
    metadata: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """The application's own values."""
    owner: str | None = None
    """The user whose session it is; None for one that belongs to no user."""
    shares: dict[str, SharedAccess] = field(default_factory=dict[str, SharedAccess])
    """The other users whom it is shared with, and what each may do."""
    erased_leaves: dict[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])
    """Session to the keys of it that are erased, as far as events of this one are under them."""
    erased_in: int = 0
    """Sequence of the latest event by which something was erased; 0 if nothing was."""
    erased: bool = False
    """Whether all of its words are erased."""
    erased_by: tuple[str, ...] = ()
    """Erasures of other sessions that have reached this one, each as `session:sequence`."""
    erasing: tuple[int, ...] = ()
    """Sequences of the erasures that were begun and have not ended."""
    sealed_under: int | None = None
    """Generation of the key that those of the session were wrapped under; None if it is plain."""

    @property
    def unsettled_turns(self) -> tuple[TurnSubmission, ...]:
        """The open turn and those that wait behind it."""
        return (*((self.open.submission,) if self.open else ()), *self.waiting)

    @property
    def is_child(self) -> bool:
        """Whether a coordinator's session opened it, which alone submits its turns."""
        return self.origin is not None and self.origin.kind == "parent"
