"""How an attempt can end, and what is recorded of it.

Whatever the outcome, the log records what the attempt took: under the claim while the attempt is
current, and as `attempt-ended` alone once another attempt holds the lease. The first functions turn
an outcome into a command. `OutcomeRecorder` appends it and decides what happens next.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final, Literal, assert_never

from turnlog.events.content import Digest, compute_digest
from turnlog.events.errors import Corrupt, Refused, TooLarge
from turnlog.events.model import call_events as recorded
from turnlog.events.model.call_events import AttemptFault
from turnlog.events.store.ports import BlobStore, TokenStream
from turnlog.events.tokens import AttemptClosed, ToolRequest
from turnlog.projections.blueprint.schema.tool_specs import ToolsSpec
from turnlog.projections.session.commands import (
    AnswerCall,
    AttemptRef,
    AttemptUsage,
    CompleteTurn,
    EndAttempt,
    FallBack,
    WithheldAnswer,
)
from turnlog.projections.session.rules.attempt_events import UNKNOWN_USAGE
from turnlog.projections.session.state import OpenTurn, SessionState
from turnlog.projections.structured_output.json_repair import InvalidAnswer
from turnlog.services.blueprints.model_prices import PriceTable, compute_cost
from turnlog.services.blueprints.resolver_contract import ResolverFailure
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.history_handler import CommandMetadata
from turnlog.services.worker.attempts import attempt_log
from turnlog.services.worker.attempts.active_attempt import ActiveAttempt
from turnlog.services.worker.attempts.answer_parser import ParsedAnswer, parse_answer
from turnlog.services.worker.attempts.output_guard import GuardViolation
from turnlog.services.worker.attempts.resolver_step import NOTHING_SPENT, UnroutableTurn
from turnlog.services.worker.attempts.summary_step import SummaryEnd, build_summary_command
from turnlog.services.worker.attempts.token_drift import TokenCountDrift
from turnlog.services.worker.model.model_types import (
    FinishedAnswer,
    ModelFailure,
    ModelRequest,
    ModelUsage,
    ReportedUsage,
)
from turnlog.services.worker.model.usage_estimate import estimate_usage
from turnlog.services.worker.tools.tool_servers import ToolServerFailure
from turnlog.services.worker.turn_queue import (
    DeliveryDeferred,
    DeliverySettled,
    DeliverySuperseded,
    DeliveryVerdict,
    TurnDelivery,
)


def build_answer_command(
    speaking: ActiveAttempt, end: FinishedAnswer, said: ParsedAnswer, spent: AttemptUsage
) -> AnswerCall:
    """Build the command for an answer that is not the reply: a plan, or tool requests."""
    spec = speaking.material.blueprint.tools or ToolsSpec(servers={})
    return AnswerCall(
        speaking.attempt,
        speaking.text,
        end.finish_reason,
        spent,
        list_tool_requests(end),
        speaking.offered_tools,
        spec.most_calls,
        said.planned,
        said.repairs,
    )


def list_tool_requests(end: FinishedAnswer) -> tuple[ToolRequest, ...]:
    """Return the tools that an answer requests, as they are recorded."""
    return tuple(
        ToolRequest(id=wanted.id, tool=wanted.name, arguments=wanted.arguments)
        for wanted in end.tool_calls
    )


def build_completion(
    speaking: ActiveAttempt, end: FinishedAnswer, said: ParsedAnswer, spent: AttemptUsage
) -> CompleteTurn:
    """Build the command that completes a turn with its reply, repaired if it had to be."""
    return CompleteTurn(
        speaking.attempt,
        said.text,
        end.finish_reason,
        spent,
        speaking.material.phases,
        list_tool_requests(end),
        references=speaking.material.references,
        raw=speaking.text if said.repairs else None,
        repairs=said.repairs,
        work=speaking.work,
    )


def build_closing_message(
    speaking: ActiveAttempt, end: FinishedAnswer, spent: AttemptUsage
) -> AttemptClosed:
    """Build the closing message that the published tokens are verified against."""
    return AttemptClosed(
        call=speaking.attempt.call,
        attempt=speaking.attempt.attempt,
        length=len(speaking.text),
        digest=compute_digest(speaking.text),
        finish=end.finish_reason,
        usage=spent.usage,
        first_token=speaking.timings.first_token,
        total=speaking.timings.total,
        tools=list_tool_requests(end),
    )


def build_withheld_completion(
    speaking: ActiveAttempt, broken: GuardViolation, blob: Digest, spent: AttemptUsage
) -> CompleteTurn:
    """Build the command that completes a turn with a replacement for its reply."""
    replacement = speaking.material.blueprint.policies.replacement
    return CompleteTurn(
        speaking.attempt,
        speaking.text,
        "safety",
        spent,
        speaking.material.phases,
        withheld=WithheldAnswer(broken.reason, broken.rule, replacement, blob),
    )


def compute_spent(
    request: ModelRequest,
    usage: ModelUsage | None,
    text: str,
    prices: PriceTable,
    timings: recorded.AttemptTimings,
) -> AttemptUsage:
    """Return tokens, cost and time of an attempt that was made.

    Tokens are reported by the provider or estimated; an unknown count is never recorded as zero.
    """
    accounted = estimate_usage(usage, request, text)
    known = "reported" if isinstance(accounted, ReportedUsage) else "estimated"
    counted = recorded.TokenUsage(
        known=known,
        input_tokens=accounted.usage.input_tokens,
        output_tokens=accounted.usage.output_tokens,
        cached_tokens=accounted.usage.cached_input_tokens,
    )
    return AttemptUsage(counted, compute_cost(request.model, counted, prices), timings)


_MAX_DOUBLINGS = 60
"""Beyond this any cap is reached, and a float is still finite."""


def compute_retry_delay(
    attempt: int,
    failure: ModelFailure | ResolverFailure | ToolServerFailure,
    *,
    base_seconds: float,
    jitter: float,
    cap: float,
    attempts: int,
) -> float | None:
    """Return the seconds to wait after the failure of `attempt`, counted from 0; None to give up.

    `base_seconds * 2**attempt + jitter`, with jitter in [0, 1), or longer if the provider asks for
    it, and never more than `cap`. `attempts` is the number of attempts allowed. The jitter is
    passed in, so that the function stays pure.
    """
    if not failure.retryable or attempt + 1 >= attempts:
        return None
    backoff = base_seconds * 2.0 ** min(attempt, _MAX_DOUBLINGS) + jitter
    return min(max(backoff, failure.retry_after or 0.0), cap)


AttemptCut = Literal["unwanted", "overdue", "stopped"]
"""Ended from outside: lease lost or turn cancelled, past its deadline, or the worker stops."""

AttemptFailure = ModelFailure | ResolverFailure | ToolServerFailure

AttemptEnd = (
    FinishedAnswer
    | GuardViolation
    | AttemptFailure
    | UnroutableTurn
    | Refused
    | Corrupt
    | AttemptCut
)

OVERDUE_FAULT: Final = AttemptFault(code="deadline", detail="not answered in time", retryable=True)

STOPPED_FAULT: Final = AttemptFault(
    code="handed-back", detail="its worker was stopped", retryable=True
)


@dataclass(frozen=True, slots=True)
class NextAttempt:
    """The next attempt, at the same call or the one that follows, after `seconds`."""

    state: SessionState
    opened: OpenTurn
    seconds: float


@dataclass(frozen=True, slots=True)
class FallbackAnswer:
    """A reply that does not come from the model, and the reason for it."""

    code: str
    detail: str
    text: str
    fault: AttemptFault | None = None
    """How the model failed; None if it was not called."""


@dataclass(frozen=True, slots=True)
class OutcomeRecorder:
    """Records how attempts end."""

    sessions: CommandHandler
    tokens: TokenStream
    blobs: BlobStore
    prices: Callable[[], Awaitable[PriceTable]]
    jitter: Callable[[], float] = random.random
    drift: TokenCountDrift = field(default_factory=TokenCountDrift)

    async def record_end(
        self, delivery: TurnDelivery, speaking: ActiveAttempt, end: AttemptEnd, by: CommandMetadata
    ) -> DeliveryVerdict | NextAttempt:
        """Record how an attempt ended, and return what to do with the delivery."""
        try:
            return await self._record_any_end(delivery, speaking, end, by)
        except TooLarge as refusal:
            # The model would write as much again, and no event could hold what was published
            fault = AttemptFault(code=refusal.code, detail=refusal.detail, retryable=False)
            return await self._record_turn_failure(delivery, speaking, fault, by, "")

    async def _record_any_end(
        self, delivery: TurnDelivery, speaking: ActiveAttempt, end: AttemptEnd, by: CommandMetadata
    ) -> DeliveryVerdict | NextAttempt:
        if speaking.stage == "summarise" and isinstance(end, SummaryEnd):
            return await self._record_summary(delivery, speaking, end, by)
        match end:
            case FinishedAnswer():
                return await self._record_answer(delivery, speaking, end, by)
            case ModelFailure(code="model_off", detail=detail) if speaking.fallback is not None:
                unasked = FallbackAnswer("model_off", detail, speaking.fallback)
                return await self._record_fallback(delivery, speaking, unasked, by)
            case ModelFailure() | ResolverFailure() | ToolServerFailure():
                return await self._record_failure(delivery, speaking, end, by)
            case UnroutableTurn():
                unasked = FallbackAnswer("unroutable", "the resolver knows no way to answer it", "")
                return await self._record_fallback(delivery, speaking, unasked, by)
            case GuardViolation():
                return await self._record_withheld(delivery, speaking, end, by)
            case Refused(code=code, detail=detail):
                fault = AttemptFault(code=code, detail=detail, retryable=False)
                return await self._fail_or_fall_back(delivery, speaking, fault, by)
            case Corrupt():
                fault = AttemptFault(code="corrupt", detail=str(end), retryable=False)
                return await self._record_turn_failure(
                    delivery, speaking, fault, by, speaking.shown_text
                )
            case "overdue":
                return await self._fail_or_fall_back(delivery, speaking, OVERDUE_FAULT, by)
            case "unwanted":
                return await self._record_cut(delivery, speaking, None, by)
            case "stopped":
                verdict = await self._record_cut(delivery, speaking, STOPPED_FAULT, by)
                return verdict if isinstance(verdict, DeliverySuperseded) else DeliveryDeferred(0)
            case _ as never:
                assert_never(never)

    async def _record_summary(
        self, delivery: TurnDelivery, speaking: ActiveAttempt, end: SummaryEnd, by: CommandMetadata
    ) -> DeliveryVerdict | NextAttempt:
        """Record the outcome of a summary; the turn continues in any case."""
        command = build_summary_command(speaking, end, await self._compute_spent(speaking))
        done = await self.sessions.handle(delivery.tenant, delivery.session, command, by)
        return _find_next_attempt(done.state, speaking.attempt, 0.0)

    async def _record_answer(
        self,
        delivery: TurnDelivery,
        speaking: ActiveAttempt,
        end: FinishedAnswer,
        by: CommandMetadata,
    ) -> DeliveryVerdict | NextAttempt:
        """Record an answer; one without the required output format is a failure."""
        try:
            said = parse_answer(speaking)
        except InvalidAnswer as fault:
            attempt_log.log_malformed(speaking, fault)
            failure = ModelFailure("malformed", str(fault))
            return await self._record_failure(delivery, speaking, failure, by)
        attempt_log.log_answer(speaking, end, said)
        if speaking.stage != "reply":
            return await self._record_intermediate(delivery, speaking, end, said, by)
        # A repair may have removed what separated two halves of a forbidden text
        broken = speaking.guard.find_violation(said.text) if said.repairs else None
        if broken is not None:
            return await self._record_withheld(delivery, speaking, broken, by)
        return await self._record_reply(delivery, speaking, end, said, by)

    async def _record_reply(
        self,
        delivery: TurnDelivery,
        speaking: ActiveAttempt,
        end: FinishedAnswer,
        said: ParsedAnswer,
        by: CommandMetadata,
    ) -> DeliveryVerdict:
        taken = await self._compute_spent(speaking)
        completed = build_completion(speaking, end, said, taken)
        completing = self.sessions.handle(delivery.tenant, delivery.session, completed, by)
        if not speaking.is_streamed:
            return find_verdict((await completing).state, speaking.attempt)
        # The closing message is sent first, so that it exists if the append fails. Nobody waits for
        # it.
        closed = build_closing_message(speaking, end, taken)
        _, done = await asyncio.gather(
            self.tokens.publish_and_confirm(
                delivery.tenant, delivery.session, delivery.turn, closed
            ),
            completing,
        )
        return find_verdict(done.state, speaking.attempt)

    async def _record_withheld(
        self,
        delivery: TurnDelivery,
        speaking: ActiveAttempt,
        end: GuardViolation,
        by: CommandMetadata,
    ) -> DeliveryVerdict:
        blob = await self.blobs.put_blob(delivery.tenant, speaking.text.encode())
        completed = build_withheld_completion(
            speaking, end, blob, await self._compute_spent(speaking)
        )
        done = await self.sessions.handle(delivery.tenant, delivery.session, completed, by)
        return find_verdict(done.state, speaking.attempt)

    async def _record_failure(
        self,
        delivery: TurnDelivery,
        speaking: ActiveAttempt,
        failure: AttemptFailure,
        by: CommandMetadata,
    ) -> DeliveryVerdict | NextAttempt:
        retries = speaking.material.blueprint.policies.retries
        detail = self._explain_failure(speaking, failure)
        fault = AttemptFault(code=failure.code, detail=detail, retryable=failure.retryable)
        seconds = compute_retry_delay(
            speaking.prior_attempts,
            failure,
            base_seconds=retries.base_seconds,
            jitter=self.jitter(),
            cap=retries.cap_seconds,
            attempts=retries.max + 1,
        )
        if seconds is None:
            return await self._fail_or_fall_back(delivery, speaking, fault, by)
        attempt_log.log_retry(speaking, fault, seconds)
        taken = await self._compute_spent(speaking)
        ended = EndAttempt(
            speaking.attempt, "failed", taken, "retry", fault, partial=speaking.shown_text
        )
        done = await self.sessions.handle(delivery.tenant, delivery.session, ended, by)
        return _find_next_attempt(done.state, speaking.attempt, seconds)

    async def _record_intermediate(
        self,
        delivery: TurnDelivery,
        speaking: ActiveAttempt,
        end: FinishedAnswer,
        said: ParsedAnswer,
        by: CommandMetadata,
    ) -> DeliveryVerdict | NextAttempt:
        """Record an answer that is not the reply."""
        command = build_answer_command(speaking, end, said, await self._compute_spent(speaking))
        done = await self.sessions.handle(delivery.tenant, delivery.session, command, by)
        return _find_next_attempt(done.state, speaking.attempt, 0.0)

    def _explain_failure(self, speaking: ActiveAttempt, failure: AttemptFailure) -> str:
        if failure.code == "context_overflow" and speaking.manifest:
            return self.drift.explain_overflow(speaking.request.model, speaking.manifest)
        return failure.detail

    async def _fail_or_fall_back(
        self,
        delivery: TurnDelivery,
        speaking: ActiveAttempt,
        fault: AttemptFault,
        by: CommandMetadata,
    ) -> DeliveryVerdict:
        """Fail the turn, unless there is a fallback reply."""
        if speaking.fallback is not None:
            instead = FallbackAnswer(fault.code, fault.detail, speaking.fallback, fault)
            return await self._record_fallback(delivery, speaking, instead, by)
        return await self._record_turn_failure(delivery, speaking, fault, by, speaking.shown_text)

    async def _record_fallback(
        self,
        delivery: TurnDelivery,
        speaking: ActiveAttempt,
        instead: FallbackAnswer,
        by: CommandMetadata,
    ) -> DeliveryVerdict:
        answered = FallBack(
            speaking.attempt,
            instead.text,
            await self._compute_spent(speaking) if instead.fault else NOTHING_SPENT,
            instead.code,
            instead.detail,
            instead.fault,
            speaking.shown_text,
            speaking.material.references,
        )
        done = await self.sessions.handle(delivery.tenant, delivery.session, answered, by)
        return find_verdict(done.state, speaking.attempt)

    async def _record_turn_failure(
        self,
        delivery: TurnDelivery,
        speaking: ActiveAttempt,
        fault: AttemptFault,
        by: CommandMetadata,
        partial: str,
    ) -> DeliveryVerdict:
        taken = await self._compute_spent(speaking)
        ended = EndAttempt(speaking.attempt, "failed", taken, "fail", fault, partial)
        done = await self.sessions.handle(delivery.tenant, delivery.session, ended, by)
        return find_verdict(done.state, speaking.attempt)

    async def _record_cut(
        self,
        delivery: TurnDelivery,
        speaking: ActiveAttempt,
        fault: AttemptFault | None,
        by: CommandMetadata,
    ) -> DeliveryVerdict:
        taken = await self._compute_spent(speaking)
        ended = EndAttempt(
            speaking.attempt, "cancelled", taken, "release", fault, speaking.shown_text
        )
        done = await self.sessions.handle(delivery.tenant, delivery.session, ended, by)
        return find_verdict(done.state, speaking.attempt)

    async def _compute_spent(self, speaking: ActiveAttempt) -> AttemptUsage:
        """Return what the attempt took; unknown if the provider sent nothing."""
        end = speaking.finished
        if end is None and not speaking.text:
            return replace(UNKNOWN_USAGE, timings=speaking.timings)
        usage = end.usage if end else None
        if usage and speaking.manifest:
            self.drift.record_count(speaking.request.model, speaking.manifest, usage.input_tokens)
        prices = await self.prices()
        return compute_spent(speaking.request, usage, speaking.text, prices, speaking.timings)


def _find_next_attempt(
    state: SessionState, attempt: AttemptRef, seconds: float
) -> DeliveryVerdict | NextAttempt:
    """Return the next attempt if this worker holds it."""
    opened = state.open
    if opened and (opened.turn, opened.attempt) == (attempt.turn, attempt.attempt + 1):
        return NextAttempt(state, opened, seconds)
    return find_verdict(state, attempt)


def find_verdict(state: SessionState, attempt: AttemptRef) -> DeliveryVerdict:
    """Return what to do with a delivery: nothing if a later attempt holds the lease."""
    opened = state.open
    if opened is None or opened.turn != attempt.turn:
        return DeliverySettled()
    return DeliverySuperseded() if opened.attempt > attempt.attempt else DeliveryDeferred(0)
