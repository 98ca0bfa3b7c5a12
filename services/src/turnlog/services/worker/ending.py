from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final, Literal, assert_never

from turnlog.events.call import AttemptFault
from turnlog.events.errors import Corrupt, Refused, TooLarge
from turnlog.events.log.ports import BlobStore, TokenStream
from turnlog.projections.session.attempts import UNKNOWN_USAGE
from turnlog.projections.session.commands import (
    AttemptRef,
    EndAttempt,
    FallBack,
    AttemptUsage,
)
from turnlog.projections.session.state import OpenTurn, SessionState
from turnlog.projections.structured.finding import InvalidAnswer
from turnlog.services.runtime.prices import PriceTable
from turnlog.services.runtime.resolver import ResolverFailure
from turnlog.services.runtime.sessions import CommandMetadata, CommandHandler
from turnlog.services.worker import remarks
from turnlog.services.worker.attempt import ActiveAttempt
from turnlog.services.worker.delivery import TurnDelivery, DeliveryDeferred, DeliverySettled, DeliverySuperseded, DeliveryVerdict
from turnlog.services.worker.drift import TokenCountDrift
from turnlog.services.worker.going_on import build_answer_command
from turnlog.services.worker.guard import GuardViolation
from turnlog.services.worker.model.exchange import FinishedAnswer
from turnlog.services.worker.model.failures import ModelFailure
from turnlog.services.worker.model.retry import compute_retry_delay
from turnlog.services.worker.replying import build_closing_message, build_completion, build_withheld_completion
from turnlog.services.worker.resolving import NOTHING_SPENT, UnroutableTurn
from turnlog.services.worker.spending import compute_spent
from turnlog.services.worker.summing import SummaryEnd, build_summary_command
from turnlog.services.worker.tools.exchange import ToolServerFailure
from turnlog.services.worker.understanding import ParsedAnswer, parse_answer

AttemptCut = Literal["unwanted", "overdue", "stopped"]
"""Ended from outside: lease lost or turn cancelled, past its deadline, or the worker stops."""
AttemptFailure = ModelFailure | ResolverFailure | ToolServerFailure
AttemptEnd = FinishedAnswer | GuardViolation | AttemptFailure | UnroutableTurn | Refused | Corrupt | AttemptCut

OVERDUE_FAULT: Final = AttemptFault(code="deadline", detail="not answered in time", retryable=True)
STOPPED_FAULT: Final = AttemptFault(code="handed-back", detail="its worker was stopped", retryable=True)


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
                return await self._record_turn_failure(delivery, speaking, fault, by, speaking.shown_text)
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
        self, delivery: TurnDelivery, speaking: ActiveAttempt, end: FinishedAnswer, by: CommandMetadata
    ) -> DeliveryVerdict | NextAttempt:
        """Record an answer; one without the required output format is a failure."""
        try:
            said = parse_answer(speaking)
        except InvalidAnswer as fault:
            remarks.log_malformed(speaking, fault)
            failure = ModelFailure("malformed", str(fault))
            return await self._record_failure(delivery, speaking, failure, by)
        remarks.log_answer(speaking, end, said)
        if speaking.stage != "reply":
            return await self._record_intermediate(delivery, speaking, end, said, by)
        # A repair may have removed what separated two halves of a forbidden text
        broken = speaking.guard.find_violation(said.text) if said.repairs else None
        if broken is not None:
            return await self._record_withheld(delivery, speaking, broken, by)
        return await self._record_reply(delivery, speaking, end, said, by)

    async def _record_reply(
        self, delivery: TurnDelivery, speaking: ActiveAttempt, end: FinishedAnswer, said: ParsedAnswer, by: CommandMetadata
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
            self.tokens.publish_and_confirm(delivery.tenant, delivery.session, delivery.turn, closed),
            completing,
        )
        return find_verdict(done.state, speaking.attempt)

    async def _record_withheld(
        self, delivery: TurnDelivery, speaking: ActiveAttempt, end: GuardViolation, by: CommandMetadata
    ) -> DeliveryVerdict:
        blob = await self.blobs.put_blob(delivery.tenant, speaking.text.encode())
        completed = build_withheld_completion(speaking, end, blob, await self._compute_spent(speaking))
        done = await self.sessions.handle(delivery.tenant, delivery.session, completed, by)
        return find_verdict(done.state, speaking.attempt)

    async def _record_failure(
        self, delivery: TurnDelivery, speaking: ActiveAttempt, failure: AttemptFailure, by: CommandMetadata
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
        remarks.log_retry(speaking, fault, seconds)
        taken = await self._compute_spent(speaking)
        ended = EndAttempt(
            speaking.attempt, "failed", taken, "retry", fault, partial=speaking.shown_text
        )
        done = await self.sessions.handle(delivery.tenant, delivery.session, ended, by)
        return _find_next_attempt(done.state, speaking.attempt, seconds)

    async def _record_intermediate(
        self, delivery: TurnDelivery, speaking: ActiveAttempt, end: FinishedAnswer, said: ParsedAnswer, by: CommandMetadata
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
        self, delivery: TurnDelivery, speaking: ActiveAttempt, fault: AttemptFault, by: CommandMetadata
    ) -> DeliveryVerdict:
        """Fail the turn, unless there is a fallback reply."""
        if speaking.fallback is not None:
            instead = FallbackAnswer(fault.code, fault.detail, speaking.fallback, fault)
            return await self._record_fallback(delivery, speaking, instead, by)
        return await self._record_turn_failure(delivery, speaking, fault, by, speaking.shown_text)

    async def _record_fallback(
        self, delivery: TurnDelivery, speaking: ActiveAttempt, instead: FallbackAnswer, by: CommandMetadata
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
        self, delivery: TurnDelivery, speaking: ActiveAttempt, fault: AttemptFault, by: CommandMetadata, partial: str
    ) -> DeliveryVerdict:
        taken = await self._compute_spent(speaking)
        ended = EndAttempt(speaking.attempt, "failed", taken, "fail", fault, partial)
        done = await self.sessions.handle(delivery.tenant, delivery.session, ended, by)
        return find_verdict(done.state, speaking.attempt)

    async def _record_cut(
        self, delivery: TurnDelivery, speaking: ActiveAttempt, fault: AttemptFault | None, by: CommandMetadata
    ) -> DeliveryVerdict:
        taken = await self._compute_spent(speaking)
        ended = EndAttempt(speaking.attempt, "cancelled", taken, "release", fault, speaking.shown_text)
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


def _find_next_attempt(state: SessionState, attempt: AttemptRef, seconds: float) -> DeliveryVerdict | NextAttempt:
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
