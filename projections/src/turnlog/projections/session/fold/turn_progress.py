"""How events change the open turn: submitted, claimed, prompted, resolved, continued and settled.

Events of a turn that is no longer open change nothing.
"""

from __future__ import annotations

from typing import assert_never

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import (
    AttemptEnded,
    AttemptStarted,
    CallCompleted,
    ContextAssembled,
)
from turnlog.events.model.child_events import ChildRequested, ChildSettled
from turnlog.events.model.retrieval_events import (
    KnowledgeRetrieved,
    QueriesFailed,
    QueriesRequested,
)
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    ApprovalRequested,
    PlanMade,
    StepPlanned,
    ToolCalled,
    ToolReturned,
    ToolStarted,
)
from turnlog.events.model.turn_events import (
    TurnCompleted,
    TurnQueued,
    TurnResolved,
    TurnRole,
    TurnSubmitted,
)
from turnlog.events.recorded_reasoning import REPLY_REASONING_FIELD
from turnlog.projections.session.fold.due_notes import update_notes
from turnlog.projections.session.fold.settled_turns import (
    NOTHING_LEFT,
    LeftOutcomes,
    add_settled_turn,
)
from turnlog.projections.session.fold.token_corrections import correct_counts_by_end
from turnlog.projections.session.frozen_copies import replace
from turnlog.projections.session.next_call import get_step_number, has_step_failed
from turnlog.projections.session.open_turn import (
    ActedStep,
    AnsweredCall,
    CurrentCall,
    EndedAttempt,
    OpenTurn,
    PlannedStep,
    PromptedCall,
    RejectedAnswer,
    RetrievedEntry,
    RunningAttempt,
    TurnPlan,
    TurnResolution,
    TurnRetrieval,
    TurnSubmission,
    UnclaimedTurn,
    UnpromptedCall,
    WrittenQueries,
)
from turnlog.projections.session.state import (
    SessionState,
    SettledStatus,
    SettledTurnRef,
)
from turnlog.projections.session.text_refs import (
    InputsRef,
    ReasoningRef,
    TextRef,
    build_literal_text_ref,
    build_media_refs,
    build_optional_text_ref,
    build_text_ref,
)
from turnlog.projections.session.token_counts import build_counted_prompt
from turnlog.projections.session.tool_disclosure import extend_disclosure, is_adapting
from turnlog.projections.session.tool_uses import (
    ChildTurnRef,
    DecidedApproval,
    PriorToolResults,
    RequestedTool,
    ReturnedTool,
    StartedTool,
    ToolResultRef,
    ToolUse,
    UndecidedApproval,
    list_reusable_results,
)


def apply_turn_progress(
    state: SessionState, recorded: RecordedEvent, event: TurnProgressEvent
) -> SessionState:
    if state.open is None or state.open.turn != event.turn:
        return state
    return replace(state, open=advance_open_turn(state.open, recorded, event))


def apply_child_requested(
    state: SessionState, recorded: RecordedEvent, event: ChildRequested
) -> SessionState:
    """Count the turns that a child session is asked for; the number outlives the turn.

    What a fork copied was asked by its original, whose children are not the fork's.
    """
    if recorded.envelope.copyof is not None:
        return apply_turn_progress(state, recorded, event)
    children = {**state.children, event.session: event.child_turn}
    return apply_turn_progress(replace(state, children=children), recorded, event)


def apply_turn_resolved(
    state: SessionState, recorded: RecordedEvent, event: TurnResolved
) -> SessionState:
    if state.open is None or state.open.turn != event.turn:
        return state
    found = TurnResolution(
        intent=event.intent,
        entity=event.entity,
        identifiers=event.identifiers,
        found=event.found,
        results=build_text_ref(recorded, "results", event.results),
        answer=build_text_ref(recorded, "answer", event.answer),
    )
    return replace(state, open=replace(state.open, resolved=found))


def apply_query_call(state: SessionState, event: QueriesRequested | QueriesFailed) -> SessionState:
    """Let the turn wait for the call that writes queries, or continue without its answer."""
    opened = state.open
    if opened is None or opened.turn != event.turn:
        return state
    match event:
        case QueriesRequested(retrieval=retrieval):
            return replace(state, open=replace(opened, querying=retrieval))
        case QueriesFailed():
            ended = _end_query_call(opened, opened.attempt, opened.call_id, None)
            return replace(state, open=ended)
        case _ as never:
            assert_never(never)


def apply_knowledge_retrieved(
    state: SessionState, recorded: RecordedEvent, event: KnowledgeRetrieved
) -> SessionState:
    if state.open is None or state.open.turn != event.turn:
        return state
    entries = tuple(
        RetrievedEntry(
            collection=each.collection,
            entry=each.entry,
            revision=each.revision,
            title=each.title,
            digest=each.digest,
            score=each.score,
            confidence=each.confidence,
        )
        for each in event.taken
    )
    found = TurnRetrieval(
        retrieval=event.retrieval,
        sequence=recorded.sequence,
        entries=entries,
        nothing_found=event.nothing_found,
        unavailable=event.unavailable,
    )
    return replace(state, open=replace(state.open, retrievals=(*state.open.retrievals, found)))


def apply_turn_submitted(
    state: SessionState, recorded: RecordedEvent, event: TurnSubmitted
) -> SessionState:
    opened = OpenTurn(
        submission=build_submission(recorded, event), released_at=recorded.envelope.time
    )
    return replace(state, open=opened, submitted=event.turn)


def apply_turn_queued(
    state: SessionState, recorded: RecordedEvent, event: TurnQueued
) -> SessionState:
    waiting = (*state.waiting, build_submission(recorded, event))
    return replace(state, waiting=waiting, submitted=event.turn)


def build_submission(recorded: RecordedEvent, event: TurnSubmitted | TurnQueued) -> TurnSubmission:
    """Return what an event submits, by reference."""
    inputs_ref = InputsRef(recorded.sequence, recorded.stream_sequence)
    return TurnSubmission(
        turn=event.turn,
        text=build_optional_text_ref(recorded, "text", event.text),
        event=recorded.envelope.id,
        inputs=inputs_ref if event.inputs or event.parent_inputs else None,
        role=event.role if isinstance(event, TurnSubmitted) else "user",
        user=event.user,
        reservation=event.reservation,
        overrides=event.overrides,
        parent_inputs=event.parent_inputs,
        media=build_media_refs(recorded, event.parts),
    )


def apply_turn_released(state: SessionState, recorded: RecordedEvent, turn: int) -> SessionState:
    found = _find_waiting_turn(state, turn)
    if found is None:
        return state
    rest = tuple([waiting for waiting in state.waiting if waiting.turn != turn])
    return replace(
        state, open=OpenTurn(submission=found, released_at=recorded.envelope.time), waiting=rest
    )


def _find_waiting_turn(state: SessionState, turn: int) -> TurnSubmission | None:
    return next((waiting for waiting in state.waiting if waiting.turn == turn), None)


def settle_turn(
    state: SessionState,
    turn: int,
    status: SettledStatus,
    reply: TextRef | None = None,
    work: TextRef | None = None,
    left: LeftOutcomes = NOTHING_LEFT,
    reasoning: ReasoningRef | None = None,
) -> SessionState:
    """Settle an open or waiting turn, and add it to the settled turns.

    A turn of the system is no exchange and has no reply. One that was cancelled or failed has a
    reply where windows keep it.
    """
    opened = state.open if state.open and state.open.turn == turn else None
    submission = opened.submission if opened else _find_waiting_turn(state, turn)
    resolved = opened.resolved if opened else None
    role: TurnRole = submission.role if submission else "user"
    done = status == "completed" and role == "user"
    counted = replace(
        state,
        open=None if opened else state.open,
        waiting=tuple([each for each in state.waiting if each.turn != turn]),
        completed=state.completed + done,
        exchanges=state.exchanges + done,
        returns=collect_prior_results(turn, state.open, state.phase) if done else state.returns,
        telling=extend_disclosure(state) if done else state.telling,
    )
    return add_settled_turn(
        counted,
        SettledTurnRef(
            turn=turn,
            status=status,
            text=submission.text if submission else None,
            reply=reply if role == "user" else None,
            phase=state.phase,
            work=work,
            request=submission.event if submission else "",
            intent=resolved.intent if resolved else None,
            entity=resolved.entity if resolved else None,
            role=role,
            outcomes=left.outcomes,
            results=left.results,
            shows_outcomes=left.is_shown,
            media=submission.media if submission else (),
            is_kept=status != "completed" and reply is not None,
            reasoning=reasoning if role == "user" else None,
        ),
    )


def find_reply_reasoning(
    state: SessionState, recorded: RecordedEvent, event: TurnCompleted
) -> ReasoningRef | None:
    """Return what the model reasoned before the reply that an event records.

    The event of an answer with tool calls has it where the reply came with these.
    """
    opened, answer = state.open, event.answer
    if opened is None or opened.turn != event.turn:
        return None
    if answer is None:
        return _find_reasoning_beside_calls(opened, event.call)
    if answer.reasoning is None or not isinstance(opened.call, PromptedCall):
        return None
    said = build_text_ref(recorded, REPLY_REASONING_FIELD, answer.reasoning)
    return ReasoningRef(said, opened.call.model)


def _find_reasoning_beside_calls(opened: OpenTurn, call: str | None) -> ReasoningRef | None:
    """Return what was reasoned before an answer that called tools and is the reply as well."""
    # An answer that was repaired is among those after which a turn continued.
    replied = opened.replied or (opened.answers[-1] if opened.answers else None)
    if replied is None or replied.call != call or replied.reasoning is None:
        return None
    return ReasoningRef(replied.reasoning, replied.model, reply_of=opened.turn)


def apply_attempt_started(state: SessionState, event: AttemptStarted) -> SessionState:
    if state.open is None or state.open.turn != event.turn:
        return state
    lease = RunningAttempt(event.attempt, event.worker)
    return replace(state, open=replace(state.open, lease=lease))


def apply_context_assembled(
    state: SessionState, recorded: RecordedEvent, event: ContextAssembled
) -> SessionState:
    """Record that the prompt of a call is in the log, and which turn carries the redaction note."""
    if state.open is None or state.open.turn != event.turn:
        return state
    adapted = state.open.adapted or (bool(state.open.retrievals) and is_adapting(event.manifest))
    call = _prompt_call(state.open.call, recorded, event)
    opened = replace(state.open, call=call, adapted=adapted)
    called = {**state.called, event.manifest.kind: recorded.stream_sequence}
    return update_notes(replace(state, open=opened, called=called), event)


def _prompt_call(
    call: CurrentCall, recorded: RecordedEvent, event: ContextAssembled
) -> PromptedCall:
    """Return the call with its prompt, which may supersede another one of it."""
    place, at = recorded.stream_sequence, recorded.envelope.time
    manifest = TextRef(
        sequence=recorded.sequence,
        place=place,
        field="manifest",
        digest=event.manifest.digest,
        characters=0,
        at=at,
    )
    counted = build_counted_prompt(event)
    match call:
        case UnpromptedCall(number=number):
            return PromptedCall(number, call, manifest, counted)
        case PromptedCall(number=number, unprompted=unprompted):
            return PromptedCall(number + 1, unprompted, manifest, counted)
        case _ as never:
            assert_never(never)


def apply_attempt_ended(
    state: SessionState, recorded: RecordedEvent, event: AttemptEnded | CallCompleted
) -> SessionState:
    opened = state.open
    if opened is None or opened.turn != event.turn:
        return state
    match opened.lease:
        case RunningAttempt() as lease if lease.attempt == event.attempt:
            rejected = _find_rejected_answer(recorded, event) or opened.rejected
            ended = replace(opened, lease=EndedAttempt(lease), rejected=rejected)
            return correct_counts_by_end(replace(state, open=ended), event)
        case UnclaimedTurn() | RunningAttempt() | EndedAttempt():
            return state
        case _ as never:
            assert_never(never)


def _find_rejected_answer(
    recorded: RecordedEvent, event: AttemptEnded | CallCompleted
) -> RejectedAnswer | None:
    if not isinstance(event, AttemptEnded) or not event.correction or event.rejected is None:
        return None
    return RejectedAnswer(
        build_text_ref(recorded, "rejected", event.rejected),
        build_literal_text_ref(recorded, "correction", event.correction),
    )


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


def advance_open_turn(
    opened: OpenTurn, recorded: RecordedEvent, event: TurnProgressEvent
) -> OpenTurn:
    match event:
        case CallCompleted(text=None):
            return replace(opened, replied=_build_answered_call(opened.call, recorded, event))
        case CallCompleted(attempt=attempt, call=call, text=said) if opened.querying is not None:
            answered = build_optional_text_ref(recorded, "text", said)
            return _end_query_call(opened, attempt, call, answered)
        case CallCompleted(attempt=attempt):
            return replace(
                opened,
                call=UnpromptedCall(opened.call.next_number, attempt),
                plan=_count_acted_step(opened),
                answers=(*opened.answers, _build_answered_call(opened.call, recorded, event)),
                rejected=None,
                has_overflowed=False,
            )
        case PlanMade():
            return replace(opened, plan=TurnPlan((), opened.plan.acted if opened.plan else None))
        case StepPlanned(goal=goal, tools=tools, given=result_sequence):
            plan = opened.plan or TurnPlan()
            step = PlannedStep(build_text_ref(recorded, "goal", goal), tools, result_sequence)
            return replace(opened, plan=TurnPlan((*plan.steps, step), plan.acted))
        case ToolCalled(call=call, id=id, tool=tool, arguments=arguments, alias=alias):
            use = ToolUse(
                call=call,
                id=id,
                tool=tool,
                asked=build_literal_text_ref(recorded, "arguments", arguments),
                alias=alias,
                signature=build_optional_text_ref(recorded, "signature", event.signature),
            )
            return replace(opened, tools=(*opened.tools, use))
        case ApprovalDecided() | ChildSettled():
            resumed = replace(opened, released_at=recorded.envelope.time)
            return _advance_tool_use(resumed, recorded, event)
        case ApprovalRequested() | ChildRequested() | ToolStarted() | ToolReturned():
            return _advance_tool_use(opened, recorded, event)
        case _ as never:
            assert_never(never)


def _build_answered_call(
    call: CurrentCall, recorded: RecordedEvent, event: CallCompleted
) -> AnsweredCall:
    return AnsweredCall(
        event.call,
        build_optional_text_ref(recorded, "text", event.text),
        call.model if isinstance(call, PromptedCall) else "",
        build_optional_text_ref(recorded, "reasoning", event.reasoning),
    )


def _end_query_call(opened: OpenTurn, attempt: int, call: str, answer: TextRef | None) -> OpenTurn:
    """Return the turn before its next call; the call for queries is no step of a plan."""
    written = WrittenQueries(opened.querying or "", call, answer)
    return replace(
        opened,
        call=UnpromptedCall(opened.call.next_number, attempt),
        querying=None,
        queried=(*opened.queried, written),
        rejected=None,
        has_overflowed=False,
    )


def _count_acted_step(opened: OpenTurn) -> TurnPlan | None:
    """Return the plan after a tactic call is answered; a retried step is already counted."""
    plan = opened.plan
    if plan is None:
        return None
    if plan.acted and has_step_failed(opened):
        return TurnPlan(plan.steps, ActedStep(plan.acted.number, is_retry=True))
    return TurnPlan(plan.steps, ActedStep(get_step_number(opened)))


ToolUseEvent = (
    ApprovalRequested | ApprovalDecided | ChildRequested | ChildSettled | ToolStarted | ToolReturned
)
"""Events of one tool call."""


def _advance_tool_use(opened: OpenTurn, recorded: RecordedEvent, event: ToolUseEvent) -> OpenTurn:
    tools = (
        _apply_tool_event(use, recorded, event)
        if (use.call, use.id) == (event.call, event.id)
        else use
        for use in opened.tools
    )
    return replace(opened, tools=tuple(tools))


def _apply_tool_event(use: ToolUse, recorded: RecordedEvent, event: ToolUseEvent) -> ToolUse:
    match event:
        case ApprovalRequested(approval=number, deadline=deadline):
            return replace(use, approval=UndecidedApproval(number, deadline))
        case ApprovalDecided(decision=decision, approved=approved):
            if use.approval is None:
                return use
            place = recorded.stream_sequence
            decided = DecidedApproval(use.approval.number, decision, place, approved)
            return replace(use, approval=decided)
        case ToolStarted(attempt=attempt):
            return _begin_tool(use, StartedTool(attempt))
        case ChildRequested(session=session, child_turn=turn):
            at = recorded.envelope.time
            return _begin_tool(use, ChildTurnRef(session, turn, recorded.sequence, at))
        case ChildSettled():
            return use
        case ToolReturned(outcome=outcome):
            returned = ReturnedTool(outcome, _build_result_ref(recorded, event))
            return replace(use, progress=returned)
        case _ as never:
            assert_never(never)


def _begin_tool(use: ToolUse, begun: StartedTool | ChildTurnRef) -> ToolUse:
    """Return a tool use that is begun; one that has returned, or that a child does, stays so."""
    match use.progress:
        case ReturnedTool():
            return use
        case ChildTurnRef() if isinstance(begun, StartedTool):
            return use
        case RequestedTool() | StartedTool() | ChildTurnRef():
            return replace(use, progress=begun)
        case _ as never:
            assert_never(never)


def _build_result_ref(recorded: RecordedEvent, event: ToolReturned) -> ToolResultRef | None:
    """Return the result of a tool; None where it has no text."""
    said = build_optional_text_ref(recorded, "text", event.text)
    if said is None:
        return None
    is_answered = event.outcome == "answered"
    later = build_optional_text_ref(recorded, "summary", event.summary) if is_answered else None
    return ToolResultRef(
        said=said,
        summary=later or said,
        distilled=event.treatment == "condensed",
        brief=build_optional_text_ref(recorded, "brief", event.brief),
        characters=event.characters,
        media=build_media_refs(recorded, event.parts),
    )


def collect_prior_results(
    turn: int, opened: OpenTurn | None, phase: str | None
) -> PriorToolResults | None:
    """Return the tool results of a turn that is completed, or None where it has none."""
    results = list_reusable_results(opened.tools) if opened else ()
    return PriorToolResults(turn, phase, results) if results else None
