"""How events change the open turn: submitted, claimed, prompted, resolved, continued and settled.

Events of a turn that is no longer open change nothing, except the redaction of its reply.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, assert_never

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import (
    AttemptEnded,
    AttemptStarted,
    CallCompleted,
    ContextAssembled,
)
from turnlog.events.model.child_events import ChildRequested, ChildSettled
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.retrieval_events import KnowledgeRetrieved
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    ApprovalDecision,
    ApprovalRequested,
    PlanMade,
    StepPlanned,
    ToolCalled,
    ToolReturned,
    ToolStarted,
)
from turnlog.events.model.turn_events import TurnQueued, TurnResolved, TurnRole, TurnSubmitted
from turnlog.projections.session.fold.settled_turns import add_settled_turn, mark_turn
from turnlog.projections.session.frozen_copies import replace
from turnlog.projections.session.next_call import get_step_number, has_step_failed
from turnlog.projections.session.state import (
    MAX_PRIOR_RESULTS,
    AnsweredCall,
    ChildTurnRef,
    OpenTurn,
    PlannedStep,
    PriorToolResults,
    RedactionNote,
    RetrievedEntry,
    SessionState,
    SettledStatus,
    SettledTurnRef,
    ToolApproval,
    ToolResultRef,
    ToolUse,
    TurnResolution,
    TurnRetrieval,
)
from turnlog.projections.session.text_refs import (
    InputsRef,
    TextRef,
    build_literal_text_ref,
    build_optional_text_ref,
    build_text_ref,
)
from turnlog.projections.session.tool_disclosure import extend_disclosure, is_adapting

REDACTION_NOTE_RULE: Final = "when reply_redacted"
"""Rule that a manifest names for a part that is included because a reply was redacted."""


def apply_turn_progress(
    state: SessionState, recorded: RecordedEvent, event: TurnProgressEvent
) -> SessionState:
    if state.open is None or state.open.turn != event.turn:
        return state
    return replace(state, open=advance_open_turn(state.open, recorded, event))


def apply_child_requested(
    state: SessionState, recorded: RecordedEvent, event: ChildRequested
) -> SessionState:
    """Count the turns that a child session is asked for; the number outlives the turn."""
    children = {**state.children, event.session: event.child_turn}
    return apply_turn_progress(replace(state, children=children), recorded, event)


def apply_turn_resolved(
    state: SessionState, recorded: RecordedEvent, event: TurnResolved
) -> SessionState:
    if state.open is None or state.open.turn != event.turn:
        return state
    found = TurnResolution(
        event.intent,
        event.entity,
        event.identifiers,
        build_text_ref(recorded, "results", event.results),
        build_text_ref(recorded, "answer", event.answer),
    )
    return replace(state, open=replace(state.open, resolved=found))


def apply_knowledge_retrieved(
    state: SessionState, recorded: RecordedEvent, event: KnowledgeRetrieved
) -> SessionState:
    if state.open is None or state.open.turn != event.turn:
        return state
    entries = tuple(
        RetrievedEntry(
            each.collection,
            each.entry,
            each.revision,
            each.title,
            each.digest,
            each.score,
            each.confidence,
        )
        for each in event.taken
    )
    found = TurnRetrieval(
        event.retrieval, recorded.sequence, entries, event.nothing_found, event.unavailable
    )
    return replace(state, open=replace(state.open, retrievals=(*state.open.retrievals, found)))


def apply_turn_submitted(
    state: SessionState, recorded: RecordedEvent, event: TurnSubmitted
) -> SessionState:
    text = build_optional_text_ref(recorded, "text", event.text)
    at, inputs_ref = recorded.envelope.time, build_inputs_ref(recorded, event)
    opened = OpenTurn(
        event.turn,
        text,
        recorded.envelope.id,
        at,
        inputs=inputs_ref,
        role=event.role,
        user=event.user,
        reservation=event.reservation,
        overrides=event.overrides,
    )
    return replace(state, open=opened, submitted=event.turn)


def build_inputs_ref(
    recorded: RecordedEvent, event: TurnSubmitted | TurnQueued
) -> InputsRef | None:
    """Return the reference to a turn's inputs, or None where it has none."""
    return InputsRef(recorded.sequence, recorded.stream_sequence) if event.inputs else None


def apply_turn_released(state: SessionState, recorded: RecordedEvent, turn: int) -> SessionState:
    found = next((waiting for waiting in state.waiting if waiting.turn == turn), None)
    if found is None:
        return state
    at, inputs_ref = recorded.envelope.time, found.inputs
    opened = OpenTurn(
        turn,
        found.text,
        found.event,
        at,
        inputs=inputs_ref,
        user=found.user,
        reservation=found.reservation,
        overrides=found.overrides,
    )
    rest = tuple(waiting for waiting in state.waiting if waiting.turn != turn)
    return replace(state, open=opened, waiting=rest)


def settle_turn(
    state: SessionState,
    turn: int,
    status: SettledStatus,
    reply: TextRef | None = None,
    work: TextRef | None = None,
) -> SessionState:
    """Settle an open or waiting turn, and add it to the settled turns.

    A turn of the system is no exchange and has no reply.
    """
    open_or_waiting = (state.open, *state.waiting)
    settled = next((each for each in open_or_waiting if each and each.turn == turn), None)
    resolved = settled.resolved if isinstance(settled, OpenTurn) else None
    role: TurnRole = settled.role if isinstance(settled, OpenTurn) else "user"
    done = status == "completed" and role == "user"
    counted = replace(
        state,
        open=None if state.open and state.open.turn == turn else state.open,
        waiting=tuple(waiting for waiting in state.waiting if waiting.turn != turn),
        completed=state.completed + done,
        exchanges=state.exchanges + done,
        returns=collect_prior_results(turn, state.open, state.phase) if done else state.returns,
        telling=extend_disclosure(state) if done else state.telling,
    )
    return add_settled_turn(
        counted,
        SettledTurnRef(
            turn,
            status,
            settled.text if settled else None,
            reply if role == "user" else None,
            phase=state.phase,
            work=work,
            request=settled.event if settled else "",
            intent=resolved.intent if resolved else None,
            entity=resolved.entity if resolved else None,
            role=role,
        ),
    )


def apply_attempt_started(state: SessionState, event: AttemptStarted) -> SessionState:
    if state.open is None or state.open.turn != event.turn:
        return state
    opened = replace(state.open, attempt=event.attempt, running=True, worker=event.worker)
    return replace(state, open=opened)


def apply_context_assembled(
    state: SessionState, recorded: RecordedEvent, event: ContextAssembled
) -> SessionState:
    """Record that the prompt of a call is in the log, and which turn carries the redaction note."""
    if state.open is None or state.open.turn != event.turn:
        return state
    place, at = recorded.stream_sequence, recorded.envelope.time
    context = TextRef(recorded.sequence, place, "manifest", event.manifest.digest, 0, at)
    calls = state.open.calls + 1
    adapted = state.open.adapted or (bool(state.open.retrievals) and is_adapting(event.manifest))
    opened = replace(state.open, calls=calls, context=context, adapted=adapted)
    called = {**state.called, event.manifest.kind: recorded.stream_sequence}
    return replace(state, open=opened, called=called, note=_update_note(state.note, event))


def _update_note(note: RedactionNote | None, event: ContextAssembled) -> RedactionNote | None:
    """Return the note after a prompt: the first turn to carry it keeps it, the next drops it."""
    if note is None or note.told == event.turn:
        return note
    if note.told is not None:
        return None
    carried = any(
        part.rule == REDACTION_NOTE_RULE and part.is_included for part in event.manifest.parts
    )
    return replace(note, told=event.turn) if carried else note


def apply_attempt_ended(state: SessionState, event: AttemptEnded | CallCompleted) -> SessionState:
    opened = state.open
    if opened is None or opened.turn != event.turn or opened.attempt != event.attempt:
        return state
    return replace(state, open=replace(opened, running=False))


def apply_reply_redacted(
    state: SessionState, recorded: RecordedEvent, event: ReplyRedacted
) -> SessionState:
    """Replace the reply of the open or an earlier turn, and add a note for the latest one."""
    replacement = build_optional_text_ref(recorded, "replacement", event.replacement)
    if state.open and state.open.turn == event.turn:
        state = settle_turn(state, event.turn, "completed", replacement)
    replied = (ref.turn for ref in state.turns if ref.status == "completed" and ref.role == "user")
    latest = event.turn == max(replied, default=0)
    marked = mark_turn(state, event.turn, redacted=True, reply=replacement)
    return replace(marked, note=RedactionNote(event.turn)) if latest else marked


TurnProgressEvent = (
    CallCompleted
    | PlanMade
    | StepPlanned
    | ToolCalled
    | ApprovalRequested
    | ApprovalDecided
    | ToolStarted
    | ToolReturned
    | ChildRequested
    | ChildSettled
)
"""Events that continue a turn without settling it."""

_FAILED_OUTCOMES: Final = frozenset({"failed", "refused"})
"""Outcomes of a tool that is known not to have done its work."""


def advance_open_turn(
    opened: OpenTurn, recorded: RecordedEvent, event: TurnProgressEvent
) -> OpenTurn:
    match event:
        case CallCompleted(text=None):
            return opened
        case CallCompleted(attempt=attempt, call=call, text=said):
            answer = AnsweredCall(call, build_optional_text_ref(recorded, "text", said))
            return replace(
                _count_step(opened),
                answered=opened.calls,
                begun=attempt,
                context=None,
                answers=(*opened.answers, answer),
            )
        case PlanMade():
            return replace(opened, plan=())
        case StepPlanned(goal=goal, tools=tools, given=result_sequence):
            step = PlannedStep(build_text_ref(recorded, "goal", goal), tools, result_sequence)
            return replace(opened, plan=(*(opened.plan or ()), step))
        case ToolCalled(call=call, id=id, tool=tool, arguments=arguments):
            use = ToolUse(call, id, tool, build_literal_text_ref(recorded, "arguments", arguments))
            return replace(opened, tools=(*opened.tools, use))
        case ApprovalRequested(approval=number, deadline=deadline):
            approval = ToolApproval(number, deadline)
            return _update_tool_use(opened, event, lambda use: replace(use, approval=approval))
        case ApprovalDecided(decision=decision):
            place = recorded.stream_sequence
            resumed = replace(opened, released_at=recorded.envelope.time)
            return _update_tool_use(resumed, event, lambda use: _decide_use(use, decision, place))
        case ChildRequested(session=session, child_turn=turn):
            child = ChildTurnRef(session, turn, recorded.sequence, recorded.envelope.time)
            return _update_tool_use(opened, event, lambda use: replace(use, child=child))
        case ChildSettled():
            return replace(opened, released_at=recorded.envelope.time)
        case ToolStarted(attempt=attempt):
            return _update_tool_use(opened, event, lambda use: replace(use, started=attempt))
        case ToolReturned(text=text):
            back = build_optional_text_ref(recorded, "text", text)
            later = _build_result_ref(recorded, event, back)
            failed = event.outcome in _FAILED_OUTCOMES
            short = event.treatment == "condensed"
            change = partial(
                replace,
                returned=True,
                failed=failed,
                said=back,
                distilled=short,
                given=later,
                brief=build_optional_text_ref(recorded, "brief", event.brief),
                characters=event.characters,
            )
            return _update_tool_use(opened, event, change)
        case _ as never:
            assert_never(never)


def _count_step(opened: OpenTurn) -> OpenTurn:
    """Count the step whose tactic call was answered; a retried step is already counted."""
    if has_step_failed(opened):
        return replace(opened, retaken=opened.acted)
    return opened if opened.plan is None else replace(opened, acted=get_step_number(opened))


def _decide_use(use: ToolUse, decision: ApprovalDecision, place: int) -> ToolUse:
    asked = use.approval
    decided = asked and ToolApproval(asked.number, asked.deadline, decision, place)
    return replace(use, approval=decided)


def _update_tool_use(
    opened: OpenTurn,
    event: ApprovalRequested | ApprovalDecided | ChildRequested | ToolStarted | ToolReturned,
    change: Callable[[ToolUse], ToolUse],
) -> OpenTurn:
    named = (event.call, event.id)
    tools = (change(use) if (use.call, use.id) == named else use for use in opened.tools)
    return replace(opened, tools=tuple(tools))


def _build_result_ref(
    recorded: RecordedEvent, event: ToolReturned, back: TextRef | None
) -> ToolResultRef | None:
    """Return the result for later turns, or None unless the tool answered."""
    if back is None or event.outcome != "answered":
        return None
    later = build_optional_text_ref(recorded, "summary", event.summary) or back
    brief = build_optional_text_ref(recorded, "brief", event.brief)
    is_distilled = event.treatment == "condensed"
    return ToolResultRef(back, later, is_distilled, brief, event.characters)


def collect_prior_results(
    turn: int, opened: OpenTurn | None, phase: str | None
) -> PriorToolResults | None:
    """Return the tool results of a turn that is completed, or None where it has none."""
    results = [use.given for use in opened.tools if use.given] if opened else []
    return PriorToolResults(turn, phase, tuple(results[-MAX_PRIOR_RESULTS:])) if results else None
