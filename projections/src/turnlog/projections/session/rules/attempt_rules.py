"""Rules for workers: claim a turn, record prompts and answers, complete or fail the turn.

A worker whose claim was superseded may still report what its attempt cost, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, assert_never

from turnlog.events.content import PlainText, build_optional_text
from turnlog.events.model.call_events import AttemptResult, AttemptStarted, ContextAssembled
from turnlog.events.model.child_events import ChildRequested
from turnlog.events.model.prompt_events import PromptsSnapshotted
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.tool_events import PlanMade, StepPlanned, ToolCalled
from turnlog.events.model.turn_events import (
    FILTER_REASONS,
    ReplyAnswer,
    ReplyFallback,
    TurnCancelled,
    TurnCompleted,
    TurnExcluded,
    TurnResolved,
    TurnSubmitted,
)
from turnlog.events.registry import KnownEvent
from turnlog.events.tokens import ToolRequest
from turnlog.projections.session.commands import (
    AnswerCall,
    ClaimTurn,
    CompleteTurn,
    EndAttempt,
    FailBrokenTurn,
    FallBack,
    FixContext,
    ResolveTurn,
    SnapshotPrompts,
)
from turnlog.projections.session.next_call import get_step_number
from turnlog.projections.session.open_turn import (
    ApprovalWait,
    ChildWait,
    CutReply,
    EndedAttempt,
    OpenTurn,
    RunningAttempt,
    UnclaimedTurn,
    find_situation,
)
from turnlog.projections.session.pinned_prompts import find_pinned_files
from turnlog.projections.session.reference_inheritance import find_inheritable_reference
from turnlog.projections.session.rules.attempt_events import (
    NewEvents,
    build_attempt_ended,
    end_lost_attempt,
    find_claimed_turn,
    is_overdue,
    record_answer,
    record_superseded_attempt,
    release_next_turn,
    start_next_call,
)
from turnlog.projections.session.rules.phase_rules import (
    PhaseTransition,
    build_exchange,
    enter_phase,
    find_transition,
    record_signal_tools,
)
from turnlog.projections.session.rules.steps.approval_rules import (
    compute_approval_wait,
    needs_approval,
    refuse_overdue_approvals,
    request_approvals,
)
from turnlog.projections.session.rules.steps.child_rules import request_children
from turnlog.projections.session.rules.steps.outcome_rules import (
    REPLACED_HEADING,
    fail_open_turn,
    find_turn_outcomes,
)
from turnlog.projections.session.rules.steps.tool_rules import (
    end_open_work,
    refuse_tool_call,
    settle_pending_tools,
)
from turnlog.projections.session.state import SessionState
from turnlog.projections.tools.tool_aliases import list_model_names


def claim_turn(state: SessionState, command: ClaimTurn, at: datetime) -> NewEvents:
    opened = state.open
    if opened is None or opened.turn != command.turn:
        return ()
    match find_situation(opened):
        case ApprovalWait() as wait:
            if compute_approval_wait(wait, at):
                return ()
            refused = refuse_overdue_approvals(opened.turn, wait)
            return (*refused, _start_attempt(opened, command.worker))
        case ChildWait():
            return ()
        case UnclaimedTurn() | RunningAttempt() | EndedAttempt():
            return _claim_lease(state, opened, command, at)
        case _ as never:
            assert_never(never)


def fail_broken_turn(state: SessionState, command: FailBrokenTurn, at: datetime) -> NewEvents:
    opened = state.open
    if opened is None or opened.turn != command.turn:
        return ()
    if not is_overdue(opened, command.policies, at):
        return ()
    detail = "an error in the worker ends each attempt at it"
    return _fail_turn(state=state, opened=opened, command=command, code="bug", detail=detail)


def _claim_lease(
    state: SessionState, opened: OpenTurn, command: ClaimTurn, at: datetime
) -> NewEvents:
    """Claim a turn that waits for nothing, or fail it after its deadline or too many claims."""
    if is_overdue(opened, command.policies, at):
        detail = "the turn was not answered in time"
        return _fail_turn(
            state=state, opened=opened, command=command, code="deadline", detail=detail
        )
    tried = opened.call_attempts
    if tried >= command.policies.max_claims:
        detail = f"{tried} workers claimed the turn, none answered it"
        return _fail_turn(
            state=state, opened=opened, command=command, code="claims-exhausted", detail=detail
        )
    return (*end_lost_attempt(opened, command.partial), _start_attempt(opened, command.worker))


def _start_attempt(opened: OpenTurn, worker: str) -> AttemptStarted:
    return AttemptStarted(
        turn=opened.turn, call=opened.call_id, attempt=opened.attempt + 1, worker=worker
    )


def _fail_turn(
    state: SessionState,
    opened: OpenTurn,
    command: ClaimTurn | FailBrokenTurn,
    code: str,
    detail: str,
) -> NewEvents:
    failed = fail_open_turn(
        opened=opened,
        settled=end_open_work(opened, command.partial),
        code=code,
        detail=detail,
        cut=CutReply(command.policies.failed, command.partial),
    )
    return (*failed, *release_next_turn(state))


def snapshot_prompts(state: SessionState, command: SnapshotPrompts) -> NewEvents:
    claimed = find_claimed_turn(state, command.attempt)
    if claimed is None or find_pinned_files(state.prompts, command.provider) is not None:
        return ()
    others = {name: each for name, each in command.others.items() if name not in state.prompts}
    return (PromptsSnapshotted(provider=command.provider, layers=command.layers, others=others),)


def record_context(state: SessionState, command: FixContext) -> NewEvents:
    if find_claimed_turn(state, command.attempt) is None:
        return ()
    return (
        ContextAssembled(
            turn=command.attempt.turn,
            call=command.attempt.call,
            model=command.model,
            parameters=command.parameters,
            manifest=command.manifest,
            supersedes=command.supersedes,
            profile=state.profile,
            body_digest=command.body_digest,
        ),
    )


def complete_turn(state: SessionState, command: CompleteTurn) -> NewEvents:
    command = replace(command, tools=tuple(_assign_unique_ids(command.tools)))
    attempt = command.attempt
    if find_claimed_turn(state, attempt) is None:
        shown = "" if command.withheld else command.shown
        return record_superseded_attempt(
            attempt=attempt,
            spent=command.spent,
            shown=shown,
            reasoning=command.reasoning,
            parts=command.parts,
        )
    step = find_transition(state, command)
    moved = (
        enter_phase(state, command.phases, step, attempt.turn) if step and command.phases else ()
    )
    # A debrief turn goes before the waiting turns, and leaving an isolated phase cancels them. In
    # both cases no waiting turn is released.
    taken = any(isinstance(event, TurnSubmitted | TurnCancelled) for event in moved)
    released = () if taken else release_next_turn(state)
    excluded = (
        (TurnExcluded(turn=attempt.turn),)
        if command.excludes_filtered and command.finish in FILTER_REASONS
        else ()
    )
    replied = _record_reply(state, command, step)
    return (*replied, *excluded, *moved, *released)


def _record_reply(
    state: SessionState, command: CompleteTurn, step: PhaseTransition | None
) -> NewEvents:
    """Record an answer and the reply that it is, as one event where nothing comes in between.

    In between come the tools that the answer asked for. A withheld reply has another event, which
    says nothing of its call.
    """
    tools, withheld = record_signal_tools(state, command), command.withheld
    if withheld is None and not tools:
        return (_build_completed_turn(state, command, step, ends_call=True),)
    answered = record_answer(
        command.attempt,
        command.spent,
        PlainText(text=command.raw or command.text),
        command.finish,
        store_text=command.raw is not None,
        reasoning=command.reasoning,
        repairs=command.repairs,
        withheld=withheld.blob if withheld else None,
    )
    if withheld is None:
        return (answered, *tools, _build_completed_turn(state, command, step, ends_call=False))
    ran = find_turn_outcomes(state.open, REPLACED_HEADING)
    redacted = ReplyRedacted(
        turn=command.attempt.turn,
        reason=withheld.reason,
        rule=withheld.rule,
        replacement=PlainText(text=withheld.replacement),
        withheld=withheld.blob,
        outcomes=ran.text,
        kept_results=ran.results,
    )
    return (answered, *tools, redacted)


def _build_completed_turn(
    state: SessionState, command: CompleteTurn, step: PhaseTransition | None, *, ends_call: bool
) -> TurnCompleted:
    answer = ReplyAnswer(
        attempt=command.attempt.attempt,
        spent=command.spent,
        text=None if command.raw is None else PlainText(text=command.raw),
        repairs=command.repairs,
        reasoning=build_optional_text(command.reasoning),
    )
    return TurnCompleted(
        turn=command.attempt.turn,
        call=command.attempt.call,
        text=PlainText(text=command.text),
        finish=command.finish,
        exchange=build_exchange(state, command.phases, step),
        work=None if command.work is None else PlainText(text=command.work),
        structured=command.structured,
        answer=answer if ends_call else None,
        reference=find_inheritable_reference(state, command.references),
        outcomes=find_turn_outcomes(state.open, REPLACED_HEADING).text,
        parts=command.parts,
    )


def end_attempt(state: SessionState, command: EndAttempt) -> NewEvents:
    ended = build_attempt_ended(
        attempt=command.attempt,
        outcome=command.outcome,
        spent=command.spent,
        fault=command.fault,
        partial=command.partial,
        rejection=command.rejection,
        reasoning=command.reasoning,
        parts=command.parts,
    )
    opened = find_claimed_turn(state, command.attempt)
    if opened is None:
        return (ended,)
    match command.then:
        case "retry":
            return (ended, _start_attempt(opened, opened.lease.worker))
        case "release":
            return (ended,)
        case "fail":
            fault = command.fault
            failed = fail_open_turn(
                opened=opened,
                settled=tuple(settle_pending_tools(opened)),
                code=fault.code if fault else "failed",
                detail=fault.detail if fault else "the attempt gave no answer",
                cut=CutReply(command.failed_policy, command.partial),
                retryable=fault.retryable if fault else True,
            )
            return (ended, *failed, *release_next_turn(state))
        case _ as never:
            assert_never(never)


ROUNDS_USED_DETAIL: Final = "the turn may call no more tools; answer with what there is"
"""The refusal of tools after the last round; the model reads it, so it never changes."""

MAX_RECORDED_TOOLS: Final = 128
"""Most tool calls of one answer that are recorded, refused ones included; a batch fits them."""


def answer_call(state: SessionState, command: AnswerCall, at: datetime) -> NewEvents:
    """Record an answer and start the next call; for a superseded worker record only the cost.

    One batch holds the answer, its plan or tool calls, and the claim of the same worker to the next
    call. So a call whose answer is in the log is never made again. Where tools need approval, or
    are children, the batch requests that instead, and the next call is left to a later claim.
    """
    attempt, text = command.attempt, PlainText(text=command.text)
    opened = find_claimed_turn(state, attempt)
    if opened is None:
        return record_superseded_attempt(
            attempt=attempt,
            spent=command.spent,
            shown=command.shown,
            reasoning=command.reasoning,
            parts=command.parts,
        )
    repairs = (*command.repairs, *_describe_unrecorded(command))
    tools = tuple(_record_tool_calls(state, opened, command))
    deadline = at + timedelta(seconds=command.approval_seconds)
    approvals = tuple(request_approvals(state, opened, tools, deadline))
    children = tuple(request_children(state, tools, command.children))
    waits = approvals or any(isinstance(each, ChildRequested) for each in children)
    return (
        record_answer(
            attempt=attempt,
            spent=command.spent,
            text=text,
            finish=command.finish,
            store_text=True,
            reasoning=command.reasoning,
            repairs=repairs,
        ).model_copy(update={"parts": command.parts}),
        *_record_plan(command),
        *tools,
        *approvals,
        *children,
        *(() if waits else (start_next_call(opened),)),
    )


def _describe_unrecorded(command: AnswerCall) -> tuple[str, ...]:
    more = len(command.tools) - MAX_RECORDED_TOOLS
    return (f"{more} more tools asked for, which are not recorded",) if more > 0 else ()


def _record_plan(command: AnswerCall) -> Iterator[KnownEvent]:
    planned, turn = command.plan, command.attempt.turn
    if planned is None:
        return
    yield PlanMade(turn=turn, call=command.attempt.call, steps=len(planned.steps))
    for number, step in enumerate(planned.steps, 1):
        goal = PlainText(text=step.goal)
        yield StepPlanned(
            turn=turn,
            step=number,
            goal=goal,
            tools=step.tools,
            given=step.result_sequence,
            loop=step.loop_sequence,
        )


def _record_tool_calls(
    state: SessionState, opened: OpenTurn, command: AnswerCall
) -> Iterator[KnownEvent]:
    """Record the requested tool calls.

    A tool that was not offered is refused at once, and so is one that a person would be asked about
    although its arguments break its schema.
    """
    attempt = command.attempt
    step = None if opened.plan is None else get_step_number(opened)
    snapshot = state.tools.get(state.profile)
    pins, names = snapshot.tools if snapshot else {}, list_model_names(snapshot)
    for number, request in enumerate(_assign_unique_ids(command.tools[:MAX_RECORDED_TOOLS]), 1):
        tool = names.get(request.tool, request.tool)
        called = ToolCalled(
            turn=attempt.turn,
            call=attempt.call,
            id=request.id,
            tool=tool,
            arguments=request.arguments,
            step=step,
            alias=pins[tool].alias if tool in pins else None,
            signature=build_optional_text(request.signature or ""),
        )
        yield called
        if command.has_used_rounds:
            yield refuse_tool_call(called, ROUNDS_USED_DETAIL)
        elif tool not in command.offered_tools:
            yield refuse_tool_call(called, f"no tool {request.tool[:80]!r} was offered")
        elif number > command.max_tools:
            yield refuse_tool_call(called, f"one answer may ask for {command.max_tools} tools")
        elif number in command.argument_faults and needs_approval(state, tool):
            fault = command.argument_faults[number]
            yield refuse_tool_call(called, f"its arguments break its schema: {fault}")


def _assign_unique_ids(tools: tuple[ToolRequest, ...]) -> Iterator[ToolRequest]:
    """Give every request a unique id: some providers send none, or the same id for all."""
    seen = {""}
    for number, request in enumerate(tools, 1):
        id = request.id
        while id in seen:
            id = f"{id}#{number}"
        seen.add(id)
        yield request.model_copy(update={"id": id})


def resolve_turn(state: SessionState, command: ResolveTurn) -> NewEvents:
    """Record the resolver's answer, once for each turn and before any model call."""
    opened = find_claimed_turn(state, command.attempt)
    if opened is None or opened.resolved is not None:
        return ()
    return (
        TurnResolved(
            turn=opened.turn,
            resolver=command.resolver,
            intent=command.intent,
            entity=command.entity,
            identifiers=command.references.identifiers,
            found=command.found,
            used=command.references.is_inherited,
            reason=command.references.reason,
            results=PlainText(text=command.results),
            meta=command.meta,
            answer=PlainText(text=command.answer),
        ),
    )


def complete_with_fallback(state: SessionState, command: FallBack) -> NewEvents:
    """Complete a turn with the resolver's answer instead of a model's, and mark it as a fallback.

    For a superseded worker only the end of its attempt is recorded.
    """
    outcome: AttemptResult = "failed" if command.fault else "unasked"
    ended = build_attempt_ended(
        attempt=command.attempt,
        outcome=outcome,
        spent=command.spent,
        fault=command.fault,
        partial=command.partial,
        rejection=command.rejection,
        reasoning=command.reasoning,
        parts=command.parts,
    )
    if find_claimed_turn(state, command.attempt) is None:
        return (ended,)
    # An out-of-scope question has no answer text and leaves the last reference unchanged.
    about = find_inheritable_reference(state, command.references) if command.text else None
    left = tuple(settle_pending_tools(state.open)) if state.open else ()
    ran = find_turn_outcomes(state.open, REPLACED_HEADING, left)
    replied = TurnCompleted(
        turn=command.attempt.turn,
        text=PlainText(text=command.text),
        fallback=ReplyFallback(code=command.code, detail=command.detail),
        reference=about,
        outcomes=ran.text,
        kept_results=ran.results,
    )
    return (ended, *left, replied, *release_next_turn(state))
