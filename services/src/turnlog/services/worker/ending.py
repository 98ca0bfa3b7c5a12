from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final, Literal, assert_never

from turnlog.events.call import Fault
from turnlog.events.errors import Corrupt, Refused, TooLarge
from turnlog.events.log.ports import Blobs, TokenStream
from turnlog.projections.session.attempts import UNKNOWN
from turnlog.projections.session.commands import (
    Attempt,
    EndAttempt,
    FallBack,
    Spent,
)
from turnlog.projections.session.state import OpenTurn, SessionState
from turnlog.projections.structured.finding import Unfit
from turnlog.services.runtime.prices import PriceTable
from turnlog.services.runtime.resolver import ResolverFailure
from turnlog.services.runtime.sessions import By, Sessions
from turnlog.services.worker import remarks
from turnlog.services.worker.attempt import Speaking
from turnlog.services.worker.delivery import Delivery, Later, Settled, Silent, Verdict
from turnlog.services.worker.drift import Drift
from turnlog.services.worker.going_on import answering
from turnlog.services.worker.guard import Violation
from turnlog.services.worker.model.exchange import Finished
from turnlog.services.worker.model.failures import ModelFailure
from turnlog.services.worker.model.retry import delay
from turnlog.services.worker.replying import closing, replying, withholding
from turnlog.services.worker.resolving import FREE, Unroutable
from turnlog.services.worker.spending import spent
from turnlog.services.worker.summing import Summed, summed
from turnlog.services.worker.tools.exchange import ServerFailure
from turnlog.services.worker.understanding import Understood, understood

Cut = Literal["unwanted", "overdue", "stopped"]
"""Ended from outside: lease lost or turn cancelled, past its deadline, or the worker stops."""
Failure = ModelFailure | ResolverFailure | ServerFailure
End = Finished | Violation | Failure | Unroutable | Refused | Corrupt | Cut

OVERDUE: Final = Fault(code="deadline", detail="not answered in time", retryable=True)
STOPPED: Final = Fault(code="handed-back", detail="its worker was stopped", retryable=True)


@dataclass(frozen=True, slots=True)
class Again:
    """The next attempt, at the same call or the one that follows, after `seconds`."""

    state: SessionState
    opened: OpenTurn
    seconds: float


@dataclass(frozen=True, slots=True)
class Instead:
    """A reply that does not come from the model, and the reason for it."""

    code: str
    detail: str
    text: str
    fault: Fault | None = None
    """How the model failed; None if it was not called."""


@dataclass(frozen=True, slots=True)
class Endings:
    """Records how attempts end."""

    sessions: Sessions
    tokens: TokenStream
    blobs: Blobs
    prices: Callable[[], Awaitable[PriceTable]]
    jitter: Callable[[], float] = random.random
    drift: Drift = field(default_factory=Drift)

    async def record(
        self, delivery: Delivery, speaking: Speaking, end: End, by: By
    ) -> Verdict | Again:
        """Record how an attempt ended, and return what to do with the delivery."""
        try:
            return await self._recorded(delivery, speaking, end, by)
        except TooLarge as refusal:
            # The model would write as much again, and no event could hold what was published
            fault = Fault(code=refusal.code, detail=refusal.detail, retryable=False)
            return await self._broken_off(delivery, speaking, fault, by, "")

    async def _recorded(
        self, delivery: Delivery, speaking: Speaking, end: End, by: By
    ) -> Verdict | Again:
        if speaking.stage == "summarise" and isinstance(end, Summed):
            return await self._summed(delivery, speaking, end, by)
        match end:
            case Finished():
                return await self._answered(delivery, speaking, end, by)
            case ModelFailure(code="model_off", detail=detail) if speaking.fallback is not None:
                unasked = Instead("model_off", detail, speaking.fallback)
                return await self._instead(delivery, speaking, unasked, by)
            case ModelFailure() | ResolverFailure() | ServerFailure():
                return await self._failed(delivery, speaking, end, by)
            case Unroutable():
                unasked = Instead("unroutable", "the resolver knows no way to answer it", "")
                return await self._instead(delivery, speaking, unasked, by)
            case Violation():
                return await self._withheld(delivery, speaking, end, by)
            case Refused(code=code, detail=detail):
                fault = Fault(code=code, detail=detail, retryable=False)
                return await self._given_up(delivery, speaking, fault, by)
            case Corrupt():
                fault = Fault(code="corrupt", detail=str(end), retryable=False)
                return await self._broken_off(delivery, speaking, fault, by, speaking.shown)
            case "overdue":
                return await self._given_up(delivery, speaking, OVERDUE, by)
            case "unwanted":
                return await self._cut(delivery, speaking, None, by)
            case "stopped":
                verdict = await self._cut(delivery, speaking, STOPPED, by)
                return verdict if isinstance(verdict, Silent) else Later(0)
            case _ as never:
                assert_never(never)

    async def _summed(
        self, delivery: Delivery, speaking: Speaking, end: Summed, by: By
    ) -> Verdict | Again:
        """Record the outcome of a summary; the turn continues in any case."""
        command = summed(speaking, end, await self._spent(speaking))
        done = await self.sessions.act(delivery.tenant, delivery.session, command, by)
        return _following(done.state, speaking.attempt, 0.0)

    async def _answered(
        self, delivery: Delivery, speaking: Speaking, end: Finished, by: By
    ) -> Verdict | Again:
        """Record an answer; one without the required output format is a failure."""
        try:
            said = understood(speaking)
        except Unfit as fault:
            remarks.malformed(speaking, fault)
            failure = ModelFailure("malformed", str(fault))
            return await self._failed(delivery, speaking, failure, by)
        remarks.answered(speaking, end, said)
        if speaking.stage != "reply":
            return await self._gone_on(delivery, speaking, end, said, by)
        # A repair may have removed what separated two halves of a forbidden text
        broken = speaking.guard.violation(said.text) if said.repairs else None
        if broken is not None:
            return await self._withheld(delivery, speaking, broken, by)
        return await self._finished(delivery, speaking, end, said, by)

    async def _finished(
        self, delivery: Delivery, speaking: Speaking, end: Finished, said: Understood, by: By
    ) -> Verdict:
        taken = await self._spent(speaking)
        completed = replying(speaking, end, said, taken)
        completing = self.sessions.act(delivery.tenant, delivery.session, completed, by)
        if not speaking.watched:
            return verdict_for((await completing).state, speaking.attempt)
        # The closing message is sent first, so that it exists if the append fails. Nobody waits for
        # it.
        closed = closing(speaking, end, taken)
        _, done = await asyncio.gather(
            self.tokens.close(delivery.tenant, delivery.session, delivery.turn, closed),
            completing,
        )
        return verdict_for(done.state, speaking.attempt)

    async def _withheld(
        self, delivery: Delivery, speaking: Speaking, end: Violation, by: By
    ) -> Verdict:
        blob = await self.blobs.put(delivery.tenant, speaking.text.encode())
        completed = withholding(speaking, end, blob, await self._spent(speaking))
        done = await self.sessions.act(delivery.tenant, delivery.session, completed, by)
        return verdict_for(done.state, speaking.attempt)

    async def _failed(
        self, delivery: Delivery, speaking: Speaking, failure: Failure, by: By
    ) -> Verdict | Again:
        retries = speaking.material.blueprint.policies.retries
        detail = self._detail(speaking, failure)
        fault = Fault(code=failure.code, detail=detail, retryable=failure.retryable)
        seconds = delay(
            speaking.tried,
            failure,
            base_seconds=retries.base_seconds,
            jitter=self.jitter(),
            cap=retries.cap_seconds,
            attempts=retries.max + 1,
        )
        if seconds is None:
            return await self._given_up(delivery, speaking, fault, by)
        remarks.retrying(speaking, fault, seconds)
        taken = await self._spent(speaking)
        ended = EndAttempt(
            speaking.attempt, "failed", taken, "retry", fault, partial=speaking.shown
        )
        done = await self.sessions.act(delivery.tenant, delivery.session, ended, by)
        return _following(done.state, speaking.attempt, seconds)

    async def _gone_on(
        self, delivery: Delivery, speaking: Speaking, end: Finished, said: Understood, by: By
    ) -> Verdict | Again:
        """Record an answer that is not the reply."""
        command = answering(speaking, end, said, await self._spent(speaking))
        done = await self.sessions.act(delivery.tenant, delivery.session, command, by)
        return _following(done.state, speaking.attempt, 0.0)

    def _detail(self, speaking: Speaking, failure: Failure) -> str:
        if failure.code == "context_overflow" and speaking.manifest:
            return self.drift.overflow(speaking.request.model, speaking.manifest)
        return failure.detail

    async def _given_up(
        self, delivery: Delivery, speaking: Speaking, fault: Fault, by: By
    ) -> Verdict:
        """Fail the turn, unless there is a fallback reply."""
        if speaking.fallback is not None:
            instead = Instead(fault.code, fault.detail, speaking.fallback, fault)
            return await self._instead(delivery, speaking, instead, by)
        return await self._broken_off(delivery, speaking, fault, by, speaking.shown)

    async def _instead(
        self, delivery: Delivery, speaking: Speaking, instead: Instead, by: By
    ) -> Verdict:
        answered = FallBack(
            speaking.attempt,
            instead.text,
            await self._spent(speaking) if instead.fault else FREE,
            instead.code,
            instead.detail,
            instead.fault,
            speaking.shown,
            speaking.material.references,
        )
        done = await self.sessions.act(delivery.tenant, delivery.session, answered, by)
        return verdict_for(done.state, speaking.attempt)

    async def _broken_off(
        self, delivery: Delivery, speaking: Speaking, fault: Fault, by: By, partial: str
    ) -> Verdict:
        taken = await self._spent(speaking)
        ended = EndAttempt(speaking.attempt, "failed", taken, "fail", fault, partial)
        done = await self.sessions.act(delivery.tenant, delivery.session, ended, by)
        return verdict_for(done.state, speaking.attempt)

    async def _cut(
        self, delivery: Delivery, speaking: Speaking, fault: Fault | None, by: By
    ) -> Verdict:
        taken = await self._spent(speaking)
        ended = EndAttempt(speaking.attempt, "cancelled", taken, "release", fault, speaking.shown)
        done = await self.sessions.act(delivery.tenant, delivery.session, ended, by)
        return verdict_for(done.state, speaking.attempt)

    async def _spent(self, speaking: Speaking) -> Spent:
        """Return what the attempt took; unknown if the provider sent nothing."""
        end = speaking.finished
        if end is None and not speaking.text:
            return replace(UNKNOWN, timings=speaking.timings)
        usage = end.usage if end else None
        if usage and speaking.manifest:
            self.drift.note(speaking.request.model, speaking.manifest, usage.input_tokens)
        prices = await self.prices()
        return spent(speaking.request, usage, speaking.text, prices, speaking.timings)


def _following(state: SessionState, attempt: Attempt, seconds: float) -> Verdict | Again:
    """Return the next attempt if this worker holds it."""
    opened = state.open
    if opened and (opened.turn, opened.attempt) == (attempt.turn, attempt.attempt + 1):
        return Again(state, opened, seconds)
    return verdict_for(state, attempt)


def verdict_for(state: SessionState, attempt: Attempt) -> Verdict:
    """Return what to do with a delivery: nothing if a later attempt holds the lease."""
    opened = state.open
    if opened is None or opened.turn != attempt.turn:
        return Settled()
    return Silent() if opened.attempt > attempt.attempt else Later(0)
