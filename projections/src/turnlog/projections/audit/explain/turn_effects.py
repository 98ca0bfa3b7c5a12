"""The effects of a turn: its calls with their results, and what followed beside the reply.

The last call gives the reply; the others produce plans, tool requests or summaries that the reader
does not see. Further effects are an ended phase, a turn that started by itself, and a note about a
withheld reply in a later call. Each names the event it is known from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.child_events import ChildRequested
from turnlog.events.model.memory_events import HistorySummarised, SummaryBegun, SummaryTrigger
from turnlog.events.model.retrieval_events import (
    EntryFeedbackGiven,
    FeedbackGiven,
    FeedbackVote,
    KnowledgeRetrieved,
    QueriesFailed,
)
from turnlog.events.model.session_events import PhaseEntered
from turnlog.events.model.tool_events import ApprovalDecided, PlanMade, ToolCalled, ToolReturned
from turnlog.events.model.turn_events import ReplyFallback, TurnCompleted, TurnFailed, TurnSubmitted
from turnlog.projections.audit.explain.part_provenance import EventRef, build_event_ref
from turnlog.projections.audit.explain.redaction_notes import (
    REPLY_NOTE,
    TEXT_NOTE,
    NoteKind,
    find_note_carrier,
    is_latest_when_redacted,
    is_redaction_of,
)
from turnlog.projections.audit.record.event_queries import iterate_calls
from turnlog.projections.audit.record.partial_log import PartialLog


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCall:
    """One call of a turn."""

    call: str
    kind: str
    fixed: EventRef
    """The event that fixed its prompt."""
    tokens: int
    """Tokens of its prompt."""
    gave: tuple[str, ...]
    """What its answer produced: a plan, tools, a summary, the reply; empty if it had no answer."""


def list_turn_calls(log: PartialLog, turn: int) -> tuple[TurnCall, ...]:
    """Return the calls of a turn in order; all events of the turn must be loaded."""
    return tuple(
        _build_turn_call(recorded, call, log)
        for recorded, call in iterate_calls(log.events)
        if call.turn == turn
    )


def _build_turn_call(recorded: RecordedEvent, call: ContextAssembled, log: PartialLog) -> TurnCall:
    results = (what for each in log.events for what in _iterate_results(each, call.call))
    manifest = call.manifest
    return TurnCall(
        call=call.call,
        kind=manifest.kind,
        fixed=build_event_ref(recorded),
        tokens=manifest.tokens,
        gave=tuple(results),
    )


def _iterate_results(recorded: RecordedEvent, call: str) -> Iterator[str]:
    match recorded.event:
        case PlanMade(call=made, steps=steps) if made == call:
            yield f"a plan of {steps} {'step' if steps == 1 else 'steps'}"
        case ToolCalled(call=requesting_call, tool=tool) if requesting_call == call:
            yield tool
        case HistorySummarised(call=made, view=view) if made == call:
            yield f"a summary of {view}"
        case KnowledgeRetrieved(query_call=made, origin="call") as event if made == call:
            number = len(event.queries)
            yield f"{number} {'query' if number == 1 else 'queries'} of {event.retrieval}"
        case TurnCompleted(call=answered) if answered == call:
            yield "the reply"
        case _:
            pass


@dataclass(frozen=True, slots=True)
class TurnEffect:
    """Something that a turn led to."""

    by: EventRef
    """The event it is known from."""
    what: str
    """A description for people."""


def iterate_effects(log: PartialLog, turn: int) -> Iterator[TurnEffect]:
    """Yield what a turn led to, in order; all events of the turn must be loaded."""
    for recorded in log.events:
        if what := _describe_effect(recorded, turn):
            yield TurnEffect(build_event_ref(recorded), what)
        if isinstance(recorded.event, PhaseEntered) and recorded.event.turn == turn:
            yield from _find_started_turn(
                recorded.event.phase, log.find_event(recorded.sequence + 1)
            )
    for kind in (REPLY_NOTE, TEXT_NOTE):
        if noted := _find_note_effect(kind, log, turn):
            yield noted


def _describe_effect(recorded: RecordedEvent, turn: int) -> str:
    match recorded.event:
        case ToolCalled() as event if event.turn == turn:
            return f"it asked for {event.tool} {event.arguments}"
        case ChildRequested() as event if event.turn == turn:
            return f"it asked {event.profile} as turn {event.child_turn} of session {event.session}"
        case ApprovalDecided(cause="deadline") as event if event.turn == turn:
            return f"nobody approved {event.tool} in time"
        case ApprovalDecided() as event if event.turn == turn:
            word = "approved" if event.decision == "approve" else "refused"
            reason = f": {event.reason}" if event.reason else ""
            edited = f" with {event.edited} instead" if event.edited is not None else ""
            return f"{recorded.envelope.actor} {word} {event.tool}{edited}{reason}"
        case ToolReturned() as event if event.turn == turn:
            return f"{event.tool} was {event.outcome}" + (
                f": {event.detail}" if event.detail else ""
            )
        case SummaryBegun(trigger=SummaryTrigger() as trigger) as event if event.turn == turn:
            return f"{event.view} was summarised first: {_describe_trigger(trigger)}"
        case QueriesFailed() as event if event.turn == turn:
            return f"no queries of {event.retrieval} were written: {event.code}"
        case TurnCompleted(fallback=ReplyFallback() as instead) as event if event.turn == turn:
            return f"it was answered without the model: {instead.code}"
        case TurnFailed(code=code, detail=detail) as event if event.turn == turn:
            return f"it failed as {code}: {detail}"
        case EntryFeedbackGiven() as event if event.turn == turn:
            return f"{event.collection}/{event.entry} was {_VOTE_LABELS[event.vote]}"
        case FeedbackGiven() as event if event.turn == turn:
            return f"it was {_VOTE_LABELS[event.vote]}"
        case PhaseEntered() as event if event.turn == turn:
            forced = ", since the phase had reached its most exchanges" if event.forced else ""
            return f"{event.before} → {event.phase} by {event.signal}{forced}"
        case _:
            return ""


_VOTE_LABELS: Final[dict[FeedbackVote, str]] = {
    "up": "voted up",
    "down": "voted down",
    "none": "freed of its vote",
}


def _describe_trigger(trigger: SummaryTrigger) -> str:
    """Describe what exceeded its limit, and after which steps."""
    steps = (f"{step.step} ({step.before:,} → {step.after:,})" for step in trigger.steps)
    taken = f"after {', then '.join(steps)} " if trigger.steps else ""
    return f"{taken}the {trigger.of} had {trigger.tokens:,} tokens, above {trigger.limit:,}"


def _find_started_turn(phase: str, after: RecordedEvent | None) -> Iterator[TurnEffect]:
    """Yield the turn that started by itself when a phase was entered."""
    if after and isinstance(after.event, TurnSubmitted) and after.event.text is None:
        what = f"turn {after.event.turn} started by itself in phase {phase}"
        yield TurnEffect(build_event_ref(after), what)


def _find_note_effect(kind: NoteKind, log: PartialLog, turn: int) -> TurnEffect | None:
    """Return the first call that carried a note about the turn's withheld reply or text."""
    withheld = [each for each in log.events if is_redaction_of(each, turn, kind)][-1:]
    carriers = (
        find_note_carrier(kind, each, log)
        for each in withheld
        if is_latest_when_redacted(turn, each, log)
    )
    return next((_describe_note_carrier(kind, each) for each in carriers if each), None)


def _describe_note_carrier(kind: NoteKind, recorded: RecordedEvent) -> TurnEffect | None:
    match recorded.event:
        case ContextAssembled(call=call, manifest=manifest):
            note_layers = [
                part.layer for part in manifest.parts if part.rule == kind.rule and part.is_included
            ]
            what = f"call {call} was told of it by {', '.join(note_layers)}"
            return TurnEffect(build_event_ref(recorded), what) if note_layers else None
        case _:
            return None
