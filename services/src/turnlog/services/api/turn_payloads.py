"""The responses about turns, commands and questions, and the history of a session."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from turnlog.contract.payload_models import ResponseModel
from turnlog.events.model.turn_events import FinishReason, TurnRole
from turnlog.projections.blueprint.storable_json import JsonObject
from turnlog.projections.session_views.phase_visits import PhaseVisit
from turnlog.projections.session_views.session_history import TurnStatus
from turnlog.projections.session_views.turn_activity import TurnPlanStep, TurnToolUse
from turnlog.projections.session_views.turn_timeline import TurnSpan


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
    deadline: str
    """Without a decision by then the tool is refused."""
    decide: str
    """The path to which the decision is posted."""


class UndecidedTurnView(SubmittedTurn):
    """A submitted turn that goes on when a person has decided."""

    status: Literal["waiting-for-approval"]
    """Why it is not settled yet."""
    approvals: tuple[RequestedApproval, ...]
    """The tools that wait for a decision."""


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


class CommandResult(ResponseModel):
    """The result of a command, which may have had nothing to do."""

    session: str
    """The session id."""
    turn: int | None
    """The turn it applies to, if any."""
    sequence: int
    """The sequence of its last event; the session's last sequence when it had nothing to do."""


class DisplayView(ResponseModel):
    """The display form of a turn."""

    text: str | None
    """The display form of the text; null when none was recorded."""
    reply: str | None
    """The display form of the reply; null when none was recorded or the reply is redacted."""


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
    reply: str | None
    """The reply, or the replacement of a redacted one."""
    finish: FinishReason | None
    """Why the model stopped."""
    call: str | None
    """The call that wrote the reply."""
    excluded: bool
    """Whether it is excluded from windows."""
    redacted: bool
    """Whether the reply was redacted."""
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


class QuestionStatus(ResponseModel):
    """Whether a question could be answered."""

    reason: Literal["ok", "unroutable"]
    """The status for programs."""
    message: str
    """The status for people."""


class QuestionAnswer(ResponseModel):
    """The answer to a question, without the conversation around it."""

    status: QuestionStatus
    """Whether the question could be answered."""
    results: list[JsonValue] | JsonObject
    """The results that were found."""
    meta: JsonObject
    """Metadata about the results."""
    answer: str
    """The answer as text; empty for a question that could not be routed."""
