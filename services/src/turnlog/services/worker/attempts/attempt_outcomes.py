"""How attempts end: parse the answer, record the outcome, and say what follows for the turn.

`rules.outcome_commands` chooses the command. Here the ends that a worker sees become outcomes, and
the command is carried out. Whatever the outcome, the log records what the attempt took.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, assert_never

import structlog

from turnlog.events.content import encode_canonical, encode_withheld_text
from turnlog.events.errors import Corrupt, Refused, TooLarge
from turnlog.events.model.attempt_figures import AttemptTimings, AttemptUsage, TokenUsage
from turnlog.events.model.call_events import AttemptFault, AttemptStarted, ContextOverflow
from turnlog.events.model.manifest import Manifest
from turnlog.events.model.tool_events import ToolReturned
from turnlog.events.model.turn_events import FILTER_REASONS
from turnlog.events.store.ports import TurnBlobStore
from turnlog.projections.prompt.budget.budget_error import BudgetExceeded
from turnlog.projections.prompt.sources.offered_tools import list_own_names
from turnlog.projections.session.commands import AttemptRef, CompleteTurn
from turnlog.projections.session.next_call import SIDE_STAGES
from turnlog.projections.session.open_turn import AnswerRejection, OpenTurn
from turnlog.projections.session.rules.attempt_events import UNKNOWN_USAGE
from turnlog.projections.session.rules.event_leaves import list_work_leaves
from turnlog.projections.session.rules.outcome_commands import (
    OVERDUE_FAULT,
    ROUNDS_FAULT,
    STOPPED_FAULT,
    AnswerRefused,
    AttemptAnswer,
    AttemptFailed,
    AttemptOutcome,
    AttemptReleased,
    AttemptReport,
    NothingRetrieved,
    TurnUnroutable,
    build_outcome_command,
)
from turnlog.projections.session.rules.retry_rules import compute_retry_delay
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.token_counts import OVERFLOW_CODE
from turnlog.projections.structured_output.json_repair import (
    InvalidAnswer,
)
from turnlog.projections.structured_output.output_requests import (
    RESPONSE_FORMAT,
    find_output_request,
)
from turnlog.projections.tools.parsed_plan import (
    ParsedPlan,
    expand_loops,
)
from turnlog.projections.tools.result_condensation import list_rows
from turnlog.projections.tools.step_tools import fit_step_tools
from turnlog.services.extensions.resolver_contract import ResolverFailure
from turnlog.services.model_facts.attempt_pricing import AttemptPricing
from turnlog.services.model_facts.response_formats import RESPONSE_FORMAT_VARIABLE
from turnlog.services.platform.concurrency import run_text_work
from turnlog.services.sessions.command_handler import CommandHandler, CommandOutcome
from turnlog.services.worker.attempts.active_attempt import ActiveAttempt
from turnlog.services.worker.attempts.answer_parsing import (
    build_rejection,
    get_max_steps,
    list_unoffered_tools,
    parse_answer,
)
from turnlog.services.worker.attempts.argument_checks import find_argument_faults
from turnlog.services.worker.attempts.cost_metrics import CostMetrics
from turnlog.services.worker.attempts.output_guard import GuardViolation, SafetyCheckFailure
from turnlog.services.worker.attempts.retrieval_step import KnowledgeFailure
from turnlog.services.worker.model.model_types import (
    FinishedAnswer,
    ModelFailure,
)
from turnlog.services.worker.model.usage_estimate import estimate_usage
from turnlog.services.worker.tools.stored_results import load_result
from turnlog.services.worker.tools.tool_server_types import ToolServerFailure
from turnlog.services.worker.turn_context import TurnContext, trace_failed_turn
from turnlog.services.worker.turn_delivery import (
    DeliveryDeferred,
    DeliverySettled,
    DeliverySuperseded,
    DeliveryVerdict,
)

_log = structlog.get_logger("turnlog.worker")

SAMPLED_CALLS: Final = 20
"""Number of calls that are compared together."""

TOLERANCE: Final = 0.10
"""Tolerated relative difference of the counts."""

AttemptCut = Literal["unwanted", "overdue", "stopped"]
"""Ended from outside: lease lost or turn cancelled, past its deadline, or the worker stops."""

AttemptFailure = (
    ModelFailure | ResolverFailure | SafetyCheckFailure | ToolServerFailure | KnowledgeFailure
)

AttemptEnd = (
    FinishedAnswer
    | GuardViolation
    | AttemptFailure
    | TurnUnroutable
    | NothingRetrieved
    | Refused
    | Corrupt
    | AttemptCut
)


@dataclass(frozen=True, slots=True)
class NextAttempt:
    """The next attempt, at the same call or the one that follows, after `seconds`."""

    context: TurnContext
    seconds: float


@dataclass(frozen=True, slots=True)
class TokenCountDrift:
    """How far the counters of blueprints are off from the provider's counts.

    A session corrects its own counts by what its log holds. The warning tells an operator that a
    blueprint's counter does not suit a model, before new sessions have measured it.
    """

    _warned_factors: dict[tuple[str, str], float] = field(
        default_factory=dict[tuple[str, str], float]
    )
    """The factor that was last warned of; 1 if none was."""
    _samples: dict[tuple[str, str], deque[tuple[int, int]]] = field(
        default_factory=dict[tuple[str, str], deque[tuple[int, int]]]
    )

    def record_count(self, model: str, manifest: Manifest, reported: int) -> None:
        """Record a provider's count, and warn once if it is off by too much."""
        key = (model, manifest.counter.name)
        seen = self._samples.setdefault(key, deque(maxlen=SAMPLED_CALLS))
        seen.append((round(manifest.tokens / manifest.counter.factor), reported))
        factor, warned_factor = self.compute_factor(*key), self._warned_factors.get(key, 1)
        if len(seen) == SAMPLED_CALLS and factor and abs(factor - warned_factor) > TOLERANCE:
            self._warned_factors[key] = factor
            _log.warning(
                "token-count-drift",
                model=model,
                counter=manifest.counter.name,
                provider_counts=f"{factor:.2f} times as many",
                calls=SAMPLED_CALLS,
            )

    def compute_factor(self, model: str, counter: str) -> float | None:
        """Return the provider's count divided by ours; None if the provider never reported one."""
        seen = self._samples.get((model, counter), ())
        counted = sum(own_count for own_count, _ in seen)
        return sum(provider_count for _, provider_count in seen) / counted if counted else None

    def explain_overflow(
        self, model: str, manifest: Manifest, overflow: ContextOverflow | None
    ) -> str:
        """Explain that a prompt within its budget was too long for its model."""
        counter, budget = manifest.counter, manifest.budget
        times = f" times {counter.factor:g}" if counter.factor > 1 else ""
        allowed = f"a budget of {budget}" if budget else "no budget"
        measured = self.compute_factor(model, counter.name)
        if overflow and overflow.tokens:
            counted = f"the provider counts {overflow.tokens}"
        else:
            counted = f"the provider counts {measured:.2f} times as many" if measured else ""
        taken = f"the model takes {overflow.limit}" if overflow and overflow.limit else ""
        named = f"{manifest.tokens} tokens by {counter.name}{times}, {allowed}"
        return "; ".join((f"too long for {model}: {named}", *filter(None, (counted, taken))))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRecorder:
    """Records how attempts end."""

    sessions: CommandHandler
    blobs: TurnBlobStore
    pricing: AttemptPricing
    jitter: Callable[[], float] = random.random
    draw_bytes: Callable[[int], bytes] = secrets.token_bytes
    """Draws the salt of a withheld answer."""
    drift: TokenCountDrift = field(default_factory=TokenCountDrift)
    costs: CostMetrics = field(default_factory=CostMetrics)

    async def record_end(
        self, active: ActiveAttempt, end: AttemptEnd
    ) -> DeliveryVerdict | NextAttempt:
        """Record how an attempt ended, and return what to do with the delivery."""
        timings = active.timings
        await _check_reasoning(active)
        outcome = await self._find_outcome(active, end)
        report = active.build_report(await self._compute_spent(active, timings))
        try:
            done = await self._record_outcome(active, report, outcome)
        except TooLarge as refusal:
            # The model would write as much again, and no event could hold what was published
            fault = AttemptFault(code=refusal.code, detail=refusal.detail, retryable=False)
            outcome = AttemptFailed(fault=fault, allows_fallback=False, has_partial=False)
            done = await self._record_outcome(active, report, outcome)
        trace_failed_turn(done.events)
        if done.events:
            self.costs.record_cost(active.request.model, report.spent.cost)
        following = find_started_attempt(done)
        if following is None:
            return find_verdict(done.state, active.attempt)
        seconds = outcome.retry_in if isinstance(outcome, AttemptFailed) else None
        return NextAttempt(active.context.begin_attempt(done.state, following), seconds or 0.0)

    async def _record_outcome(
        self, active: ActiveAttempt, report: AttemptReport, outcome: AttemptOutcome
    ) -> CommandOutcome:
        command = build_outcome_command(report, outcome)
        context, end = active.context, active.progress.finished
        recording = self.sessions.handle(context.tenant, context.session, command, context.by)
        is_reply = isinstance(command, CompleteTurn) and isinstance(outcome, AttemptAnswer)
        if not is_reply or end is None or not active.is_streamed:
            return await recording
        # The closing message is sent first, so that it exists if the append fails. Nobody waits for
        # it.
        closed = active.build_closing_message(end, report.spent)
        _, done = await asyncio.gather(active.publisher.confirm_closing(closed), recording)
        return done

    async def _find_outcome(self, active: ActiveAttempt, end: AttemptEnd) -> AttemptOutcome:
        match end:
            case FinishedAnswer():
                return await self._find_answer_outcome(active, end)
            case GuardViolation():
                return await self._store_refused_answer(active, end)
            case ModelFailure(unread=unread) if unread:
                return await self._keep_text(active, end, AnswerRejection(unread))
            case ModelFailure() | ResolverFailure() | SafetyCheckFailure() | ToolServerFailure():
                return self._find_failure_outcome(active, end)
            case KnowledgeFailure():
                return self._find_failure_outcome(active, end)
            case TurnUnroutable() | NothingRetrieved():
                return end
            case Refused():
                return AttemptFailed(fault=_explain_refusal(active, end), is_from_call=True)
            case Corrupt():
                fault = AttemptFault(code="corrupt", detail=str(end), retryable=False)
                return AttemptFailed(fault=fault, allows_fallback=False, is_from_call=True)
            case "overdue":
                return AttemptFailed(fault=OVERDUE_FAULT)
            case "unwanted":
                return AttemptReleased()
            case "stopped":
                return AttemptReleased(STOPPED_FAULT)
            case _ as never:
                assert_never(never)

    async def _find_answer_outcome(
        self, active: ActiveAttempt, end: FinishedAnswer
    ) -> AttemptOutcome:
        """Parse an answer; one without the required output format is a failure."""
        if end.finish_reason in FILTER_REASONS:
            ratings = [each.model_dump(exclude_defaults=True) for each in end.ratings]
            described = describe_attempt(active)
            _log.warning("answer-filtered", finish=end.finish_reason, ratings=ratings, **described)
        if failed := self._find_empty_outcome(active, end):
            return failed
        try:
            parse = partial(parse_answer, active, end)
            answer = await run_text_work(parse, len(active.text))
        except InvalidAnswer as fault:
            _log.error("answer-malformed", why=str(fault), **describe_attempt(active))
            return await self._reject_answer(active, fault)
        if answer.plan:
            plan = await self._expand_loops(active, answer.plan)
            if room := active.progress.setup.tool_room:
                plan = fit_step_tools(plan, room)
            answer = replace(answer, plan=plan, repairs=(*answer.repairs, *plan.repairs))
        has_used_rounds = active.progress.setup.has_used_rounds and active.stage == "reply"
        if has_used_rounds and answer.continues_turn and not answer.text:
            return AttemptFailed(fault=ROUNDS_FAULT, is_from_call=True)
        if names := list_unoffered_tools(active, answer):
            what = f"it called {names}, which nobody offered, and wrote nothing"
            return self._find_failure_outcome(active, ModelFailure("tools_not_offered", what))
        if active.stage not in SIDE_STAGES:
            _log_unusual_answer(active, answer)
        # A repair may have removed what separated two halves of a forbidden text, and the escapes
        # of JSON may have hidden one.
        goals = [step.goal for step in answer.plan.steps] if answer.plan else []
        try:
            for text in (*([answer.text] if answer.repairs else []), *goals):
                violation = await active.progress.guard.check_text(text)
                if violation is not None:
                    return await self._store_refused_answer(active, violation)
        except SafetyCheckFailure as failure:
            return self._find_failure_outcome(active, failure)
        faults = await find_argument_faults(
            answer.tools, active.request.tools, list_own_names(active.manifest)
        )
        return replace(answer, argument_faults=faults)

    def _find_empty_outcome(
        self, active: ActiveAttempt, end: FinishedAnswer
    ) -> AttemptFailed | None:
        """Return the failure of an answer that holds neither text nor a tool call, if it is one."""
        policy = active.material.blueprint.policies.empty_reply
        is_cut = end.finish_reason in FILTER_REASONS
        if active.text.strip() or end.tool_calls or is_cut or policy == "accept":
            return None
        used = end.usage.reasoning_tokens if end.usage else 0
        reasoned = f" but {used} tokens of reasoning" if used else ""
        detail = f"it ended with nothing said{reasoned} ({end.finish_sent or end.finish_reason})"
        # An answer that used up its room would use it up again
        is_final = policy == "fail" or end.finish_reason == "length"
        failure = ModelFailure("empty", detail, is_final=is_final)
        return self._find_failure_outcome(active, failure)

    async def _reject_answer(self, active: ActiveAttempt, fault: InvalidAnswer) -> AttemptOutcome:
        """Fail with an answer of another form than required, unless a rule withholds it."""
        failure = ModelFailure("malformed", str(fault))
        return await self._keep_text(active, failure, build_rejection(active, fault))

    async def _keep_text(
        self, active: ActiveAttempt, failure: ModelFailure, rejection: AnswerRejection | None
    ) -> AttemptOutcome:
        """Fail with a text that is recorded; what a rule forbids is stored as withheld instead."""
        text = rejection.text if rejection else active.text
        try:
            violation = await active.progress.guard.check_json(text)
        except SafetyCheckFailure as fault:
            return self._find_failure_outcome(active, fault)
        if violation is not None:
            return await self._store_refused_answer(active, violation)
        return replace(self._find_failure_outcome(active, failure), rejection=rejection)

    async def _expand_loops(self, active: ActiveAttempt, plan: ParsedPlan) -> ParsedPlan:
        """Replace each looping step of a plan by one for each row of the result it loops over."""
        looped = {step.loop_sequence for step in plan.steps if step.loop_sequence is not None}
        if not looped:
            return plan
        tenant, session = active.context.tenant, active.context.session
        log, rows = self.sessions.log, dict[int, list[str]]()
        head = await log.read_last_event(tenant, session, leader=False)
        for sequence in looped:
            if head is None:
                break
            recorded = await log.find_event(tenant, session, sequence, head)
            if isinstance(recorded.event, ToolReturned):
                media = self.sessions.texts.media.store
                text = await load_result(self.blobs, media, tenant, recorded.event)
                if text is not None:
                    rows[sequence] = await run_text_work(partial(list_rows, text), len(text))
        return expand_loops(plan, rows, get_max_steps(active))

    async def _store_refused_answer(
        self, active: ActiveAttempt, violation: GuardViolation
    ) -> AnswerRefused:
        requested = active.progress.finished.tool_calls if active.progress.finished else ()
        reasoning = filter(None, [active.encode_reasoning()])
        parts = (encode_canonical(each.model_dump()) for each in active.progress.parts)
        text = "\n".join([active.text, *(call.arguments for call in requested), *reasoning, *parts])
        stored = encode_withheld_text(text, self.draw_bytes(32))
        context = active.context
        leaves = list_work_leaves(context.state, context.attempt.turn)
        blob = await self.blobs.put_turn_blob(context.tenant, stored, leaves)
        return AnswerRefused(violation.reason, violation.rule, blob)

    def _find_failure_outcome(
        self, active: ActiveAttempt, failure: AttemptFailure
    ) -> AttemptFailed:
        overflow = failure.overflow if isinstance(failure, ModelFailure) else None
        fault = AttemptFault(
            code=failure.code,
            detail=failure.detail,
            retryable=failure.retryable,
            overflow=overflow,
        )
        is_from_call = isinstance(failure, ModelFailure | SafetyCheckFailure)
        if active.stage in SIDE_STAGES and is_from_call:
            return AttemptFailed(fault=fault, is_from_call=True)
        if failure.code == OVERFLOW_CODE and active.manifest:
            return self._find_overflow_outcome(active, failure, fault, active.manifest)
        if failure.code == "response_format_refused":
            fault = _explain_refused_format(active, fault)
        retries = active.material.blueprint.policies.retries
        seconds = compute_retry_delay(
            active.context.prior_attempts, failure, retries, self.jitter()
        )
        _log_failed_attempt(active, failure, fault, seconds)
        return AttemptFailed(fault=fault, retry_in=seconds, is_from_call=is_from_call)

    def _find_overflow_outcome(
        self,
        active: ActiveAttempt,
        failure: AttemptFailure,
        fault: AttemptFault,
        manifest: Manifest,
    ) -> AttemptFailed:
        """Fail with a prompt that was too long; the first time, a shorter one follows at once."""
        detail = self.drift.explain_overflow(active.request.model, manifest, fault.overflow)
        is_first = not active.context.require_turn().has_overflowed
        if not is_first:
            detail = f"{detail}; it was shortened once already"
        seconds = 0.0 if is_first else None
        fault = fault.model_copy(update={"detail": detail, "retryable": is_first})
        _log_failed_attempt(active, failure, fault, seconds)
        return AttemptFailed(fault=fault, retry_in=seconds, is_from_call=True)

    async def _compute_spent(
        self, active: ActiveAttempt, timings: AttemptTimings | None
    ) -> AttemptUsage:
        """Return tokens, cost and time of the attempt; unknown if the provider sent nothing."""
        end, request = active.progress.finished, active.request
        is_silent = not active.text and not active.progress.reasoning
        if is_silent and (end is None or _is_unaccounted(end)):
            return UNKNOWN_USAGE.model_copy(update={"timings": timings})
        reported = end.usage if end else None
        if reported and active.manifest:
            self.drift.record_count(request.model, active.manifest, reported.input_tokens)
        tool_calls = end.tool_calls if end else ()
        counted = reported or estimate_usage(request, active.text, tool_calls)
        usage = TokenUsage(
            known="reported" if reported else "estimated",
            input_tokens=counted.input_tokens,
            output_tokens=counted.output_tokens,
            cached_tokens=counted.cached_input_tokens,
            cache_write_tokens=counted.cache_write_tokens,
            reasoning_tokens=counted.reasoning_tokens or None,
        )
        cost = await self.pricing.compute_attempt_cost(request.model, usage)
        if end is None:
            return AttemptUsage(usage=usage, cost=cost, timings=timings)
        return AttemptUsage(
            usage=usage,
            cost=cost,
            timings=timings,
            response_id=end.response_id,
            ratings=end.ratings,
            finish_sent=end.finish_sent,
        )


async def _check_reasoning(active: ActiveAttempt) -> None:
    """Withhold reasoning whose text breaks a rule, or cannot be checked by it."""
    progress = active.progress
    if not progress.guard.rules or not progress.reasoning:
        return
    try:
        violation = await progress.guard.check_json(active.encode_reasoning())
    except SafetyCheckFailure as failure:
        progress.withheld_by = failure.rule
    else:
        progress.withheld_by = violation.rule if violation else None


def _is_unaccounted(end: FinishedAnswer) -> bool:
    """Return whether the end of an answer says neither what it held nor what it took."""
    return end.usage is None and not end.tool_calls and end.finish_reason not in FILTER_REASONS


def _log_failed_attempt(
    active: ActiveAttempt, failure: AttemptFailure, fault: AttemptFault, next_in: float | None
) -> None:
    """Log why an attempt failed; it is an error where no other attempt follows."""
    described = {**describe_attempt(active), "model": active.request.model}
    if isinstance(failure, ModelFailure) and failure.address:
        described["address"] = failure.address
    why = fault.detail.partition("\n")[0]
    if next_in is None:
        _log.error("attempt-failed", code=fault.code, why=why, **described)
    else:
        _log.warning("attempt-failed", code=fault.code, why=why, next_in=next_in, **described)


def _explain_refusal(active: ActiveAttempt, refusal: Refused) -> AttemptFault:
    """Return the fault of a call that cannot be made; it may be that a prompt stays too long."""
    opened = active.context.state.open
    if isinstance(refusal, BudgetExceeded) and opened is not None and opened.has_overflowed:
        detail = f"the provider refused it as too long, and no step shortens it: {refusal.detail}"
        return AttemptFault(code=OVERFLOW_CODE, detail=detail, retryable=False)
    return AttemptFault(code=refusal.code, detail=refusal.detail, retryable=False)


def _explain_refused_format(active: ActiveAttempt, fault: AttemptFault) -> AttemptFault:
    """Add what to do about a refused schema; it is no such failure if the request had none."""
    request, manifest = active.request, active.manifest
    if RESPONSE_FORMAT not in request.parameters:
        return fault.model_copy(update={"code": "bad_request"})
    fix = (
        f"set {RESPONSE_FORMAT_VARIABLE}={request.model}=no, so that the prompt states it"
        if manifest and find_output_request(manifest)
        else f"correct `{RESPONSE_FORMAT}` among the call's `parameters`"
    )
    detail = f"the provider refuses the schema of the answer ({fault.detail}): {fix}"
    return fault.model_copy(update={"detail": detail})


def _log_unusual_answer(active: ActiveAttempt, answer: AttemptAnswer) -> None:
    """Log an answer that was cut short or repaired, without its text."""
    if answer.finish == "length":
        _log.warning("answer-truncated", **describe_attempt(active))
    if answer.repairs:
        _log.debug("answer-repaired", repairs=answer.repairs, **describe_attempt(active))


def describe_attempt(active: ActiveAttempt) -> dict[str, str]:
    """Return the fields that identify an attempt in log messages."""
    return {"session": active.context.session, "call": active.attempt.call}


def find_started_attempt(done: CommandOutcome) -> OpenTurn | None:
    """Return the turn at the next attempt if this command started it, else None.

    An attempt that another worker started meanwhile has the next number too, and is not ours.
    """
    is_started = any(isinstance(each.event, AttemptStarted) for each in done.events)
    return done.state.open if is_started else None


def find_verdict(state: SessionState, attempt: AttemptRef) -> DeliveryVerdict:
    """Return what to do with a delivery: nothing if a later attempt holds the lease."""
    opened = state.open
    if opened is None or opened.turn != attempt.turn:
        return DeliverySettled()
    return DeliverySuperseded() if opened.attempt > attempt.attempt else DeliveryDeferred(0)
