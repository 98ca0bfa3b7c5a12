"""The answers of a service that applications work with, as frozen classes.

Fields that a later release adds are left out, so an older client reads a newer service. What is
here means the same in the service's OpenAPI document; a test compares the two.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from turnlog.contract.usage_payloads import CostSum


class Answer(BaseModel):
    """An answer of a service."""

    # Validators are built when they are first used: a program needs few of them.
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class CommandAnswer(Answer):
    """The result of a command, which may have had nothing to do."""

    session: str
    """The session id."""
    turn: int | None = None
    """The turn it applies to, if any."""
    sequence: int
    """The sequence of its last event."""


class SubmitAnswer(Answer):
    """A turn that is on the log."""

    session: str
    """The session id."""
    turn: int
    """The turn number within the session."""
    sequence: int
    """The sequence of the event that submitted it."""


class PendingApprovalAnswer(Answer):
    """A tool that waits for a person's approval."""

    session: str
    """The session to decide it in: that of the turn, or a child session that it asked."""
    turn: int
    """The number of the turn in that session."""
    approval: int
    """The number to decide it by."""
    tool: str
    """The name of the tool."""
    arguments: str
    """The arguments as the model wrote them."""
    deadline: str
    """Without a decision by then the tool is refused."""


class UnsettledAnswer(SubmitAnswer):
    """A turn that is not settled yet."""

    approvals: tuple[PendingApprovalAnswer, ...] = ()
    """The tools it waits for; empty where it waits for no person."""


class TurnAnswer(SubmitAnswer):
    """A settled turn with its outcome."""

    settled: int
    """The sequence of the event that settled it."""
    status: Literal["completed", "failed", "cancelled"]
    """How it ended."""
    reply: str | None = None
    """The reply, or the replacement of a redacted one."""
    finish: str | None = None
    """Why the model stopped; `length` means that the reply is incomplete."""
    redacted: bool
    """Whether the reply was redacted."""
    reason: str | None = None
    """Why it failed, was cancelled or was redacted."""
    detail: str | None = None
    """What went wrong, for people; None unless it failed."""
    fallback: str | None = None
    """Why the reply is a fallback; None when a model wrote it."""
    output: JsonValue = None
    """The reply as the value that it is, where its call requires a schema; otherwise None."""


class TurnEntry(Answer):
    """A turn in a history, as people read it."""

    turn: int
    """The turn number."""
    status: str
    """`completed`, `failed`, `cancelled`, `open` or `queued`."""
    text: str | None = None
    """The text that was submitted."""
    reply: str | None = None
    """The reply, or the replacement of a redacted one."""
    excluded: bool
    """Whether it is excluded from windows."""
    redacted: bool
    """Whether the reply was redacted."""
    reason: str | None = None
    """Why it failed, was cancelled or was redacted."""
    detail: str | None = None
    """What went wrong, for people; None unless it failed."""
    phase: str | None = None
    """The phase it belongs to."""
    output: JsonValue = None
    """The reply as the value that it is, where its call requires a schema; otherwise None."""


class ReplyDone(Answer):
    """The reply is complete and recorded, in a session without phases or outside them."""

    turn: int
    """The turn number."""
    sequence: int
    """The sequence of the event that holds the reply."""
    finish: str | None
    """Why the model stopped; `length` means that the reply was cut off. None without a model."""
    fallback: str | None = None
    """Why the reply is a fallback; None when a model wrote it."""
    output: JsonValue = None
    """The reply as the value that it is, where its call requires a schema; otherwise None."""


class ExchangeDone(Answer):
    """The reply is complete and recorded, in a phase of kind `freeform`."""

    phase_transition: str | None
    """The signal that ended the phase with this turn; None if the phase goes on."""
    next_phase: str | None
    """The next phase; None if the phase goes on."""
    exchanges_count: int
    """The number of exchanges in the phase so far, including this one."""
    output: JsonValue = None
    """The reply as the value that it is, where its call requires a schema; otherwise None."""


class DebriefDone(Answer):
    """The reply is complete and recorded, in a phase of kind `debrief`."""

    debrief_complete: bool
    """Always true."""
    output: JsonValue = None
    """The reply as the value that it is, where its call requires a schema; otherwise None."""


class StoredEnvelope(Answer):
    """Everything around the data of an event of the log, as CloudEvents 1.0."""

    id: str
    """A UUID of the event."""
    type: str
    """Its type with its version, such as `turnlog.turn-completed.v1`."""
    source: str
    """The process that wrote it."""
    subject: str
    """The session."""
    time: str
    """When the event was decided: RFC 3339 in UTC, by the writer's clock."""
    tenant: str
    """The tenant that owns the session."""
    sequence: int
    """Position in the session: 1..n without a gap."""
    actor: str
    """On whose behalf the event was written."""
    prevhash: str | None = None
    """Digest of the stored bytes of the session's previous event."""
    causationid: str | None = None
    """Id of the event that caused this one."""
    correlationid: str | None = None
    """Groups the events of one operation."""
    traceparent: str | None = None
    """W3C trace context."""
    copyof: str | None = None
    """Id of the original event, in the session that this one was forked from."""
    withheldby: int | None = None
    """Sequence of the redaction by which a text of this event is withheld."""
    storedat: str | None = None
    """Path of the stored bytes of the event."""


class HistoryAnswer(Answer):
    """The turns of a session."""

    session: str
    """The session id."""
    sequence: int
    """The sequence that the answer reflects."""
    turns: tuple[TurnEntry, ...]
    """The turns in order."""


class OpenApprovalAnswer(Answer):
    """A tool that waits for a person's approval."""

    approval: int
    """The number of the approval within the turn."""
    call: str
    """The call whose answer requested the tool; with `id` it names the tool use."""
    id: str
    """The id of the tool use."""
    tool: str
    """The tool name."""
    deadline: str
    """Without a decision by then the tool is refused, RFC 3339."""


class OpenTurnAnswer(Answer):
    """The turn that is not settled yet."""

    turn: int
    """The turn number."""
    approvals: tuple[OpenApprovalAnswer, ...] = ()
    """The tools that wait for approval."""


class ToolResultAnswer(Answer):
    """A tool use with its whole result."""

    tool: str
    """The tool name."""
    arguments: str
    """Its arguments as the model wrote them."""
    outcome: str | None
    """`answered`, `failed`, `refused` or `lost`; None while it has not returned."""
    detail: str = ""
    """Why it was refused, failed or lost."""
    result: str | None
    """The result as the tool gave it; None if there is none."""


class SessionAnswer(Answer):
    """The state of a session."""

    session: str
    """The session id."""
    sequence: int
    """The last sequence."""
    blueprint: str
    """The blueprint's name."""
    version: int
    """The blueprint's version."""
    profile: str
    """The current profile."""
    attributes: dict[str, JsonValue]
    """The attributes of the session, defaults included."""
    closed: bool
    """Whether the session accepts no more turns."""
    turns: int
    """The number of submitted turns."""
    completed: int
    """The number of turns with a reply."""
    phase: str | None = None
    """The current phase."""
    open: OpenTurnAnswer | None = None
    """The turn that is not settled yet, with the approvals it waits for."""


class SessionListEntry(Answer):
    """A session in a list."""

    session: str
    """The session id."""
    blueprint: str
    """The blueprint's name."""
    attributes: dict[str, JsonValue]
    """The attributes of the session."""
    turns: int
    """The number of submitted turns."""


class SessionListAnswer(Answer):
    """A page of sessions, newest first."""

    sessions: tuple[SessionListEntry, ...]
    """The sessions."""
    next: str | None = None
    """The `before` of the next page; None on the last page."""


class TurnRangeAnswer(Answer):
    """Consecutive turns."""

    first: int
    """The first turn."""
    last: int
    """The last turn."""


class SummaryAnswer(Answer):
    """A summary that replaces older turns in windows."""

    sequence: int
    """The sequence of its event, by which it is undone."""
    view: str
    """The history view of the blueprint that contains it."""
    turns: tuple[TurnRangeAnswer, ...]
    """The turns it replaces."""
    text: str | None
    """Its text; None when it is no longer readable."""
    micro_dollars: int | None
    """What writing it cost, in millionths of a dollar; None when unknown."""
    guessed: bool
    """Whether that price is a guess, because no table has the very model."""


class UncoveredTurnsAnswer(Answer):
    """Turns of a view that no summary covers any more."""

    view: str
    """The history view of the blueprint."""
    turns: tuple[TurnRangeAnswer, ...]
    """The turns, without the excluded one; the next turn may have a model summarise them again."""


class ExclusionPreviewAnswer(Answer):
    """What excluding a turn would undo; nothing is recorded."""

    session: str
    """The session id."""
    turn: int
    """The turn."""
    sequence: int
    """The sequence that the answer reflects."""
    undone: tuple[SummaryAnswer, ...]
    """The summaries that cover the turn and would be undone, the latest first."""
    uncovered: tuple[UncoveredTurnsAnswer, ...]
    """The turns that windows would show again, by view."""
    cost: CostSum
    """What writing the undone summaries cost, as an estimate for writing them again."""
