"""Receipts: what an erasure reaches, and what a checking pass of its own finds afterwards.

A receipt is made from the log each time, so it can be had whenever somebody asks. The checking pass
knows nothing of what the erasure did: it reads the keys anew and tries to open every event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.contract.erasures.erasure_payloads import (
    ErasedSessionView,
    ErasedTurnView,
    ErasureReceipt,
)
from turnlog.contract.value_names import ErasureStatus
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.redaction_events import ContentErased, ErasureBegun, ErasureOrigin
from turnlog.events.seals.leaf_sets import parse_leaf_runs
from turnlog.projections.audit.record.erasure_reach import is_closed, is_under
from turnlog.services.erasures.erasure_service import ErasureService, rebuild_target
from turnlog.services.erasures.erasure_tracing import ErasureTarget, TracedErasure

KEPT_ELSEWHERE: Final = (
    "back-ups of the stream KEYS, until the generation of the keyring is retired",
    "uploads that came before their turn, for who has kept the digest of their bytes",
    "bundles, exports and proofs that were handed out",
    "what the providers of models and of tools keep",
    "what applications and consumers derived and stored themselves",
    "logs of processes and traces",
)
"""What no erasure here can reach."""


@dataclass(frozen=True, slots=True)
class ErasureReceipts:
    """Makes receipts."""

    service: ErasureService

    async def build_plan(self, target: ErasureTarget, reason: str) -> ErasureReceipt:
        """Return what an erasure would reach; refuse what cannot be erased."""
        traced = await self.service.plan_erasure(target)
        sessions = [_build_view(traced)]
        for reached in traced.reached:
            sessions += await self._trace_plan(reached)
        return _build_receipt(target.session, reason, sessions)

    async def _trace_plan(self, target: ErasureTarget) -> list[ErasedSessionView]:
        traced = await self.service.tracer.trace(target)
        found = [_build_view(traced)]
        for reached in traced.reached:
            found += await self._trace_plan(reached)
        return found

    async def build_receipt(self, tenant: str, session: str, begun: int) -> ErasureReceipt:
        """Return the receipt of an erasure that was begun; refuse a number that is none."""
        handler = self.service.command_handler
        events = await handler.load_events(tenant, session)
        recorded = next((each for each in events if each.sequence == begun), None)
        if recorded is None or not isinstance(recorded.event, ErasureBegun):
            raise Refused("unknown-erasure", f"event {begun} begins no erasure", field="sequence")
        sessions = await self._trace_done(tenant, recorded)
        return _build_receipt(session, recorded.event.reason, sessions, recorded)

    async def _trace_done(self, tenant: str, recorded: RecordedEvent) -> list[ErasedSessionView]:
        event = recorded.event
        if not isinstance(event, ErasureBegun):
            return []
        target = rebuild_target(tenant, recorded.session, event)
        traced = await self.service.tracer.trace(target)
        events = await self._read_anew(tenant, recorded.session)
        found = [_build_view(traced, recorded, events)]
        origin = ErasureOrigin(session=recorded.session, sequence=recorded.sequence)
        for reached in traced.reached:
            events = await self.service.command_handler.load_events(tenant, reached.session)
            begun = (each for each in events if _is_caused_by(each, origin))
            own = next(begun, None)
            found += await self._trace_done(tenant, own) if own else await self._trace_plan(reached)
        return found

    async def _read_anew(self, tenant: str, session: str) -> Sequence[RecordedEvent]:
        """Return the events of a session by the keys that are stored now."""
        await self.service.require_keys(session).compare_record(tenant, session)
        return await self.service.command_handler.load_events(tenant, session)


def _is_caused_by(recorded: RecordedEvent, origin: ErasureOrigin) -> bool:
    return isinstance(recorded.event, ErasureBegun) and recorded.event.origin == origin


def _build_view(
    traced: TracedErasure,
    recorded: RecordedEvent | None = None,
    events: Sequence[RecordedEvent] = (),
) -> ErasedSessionView:
    begun = recorded.sequence if recorded else None
    end = next((each for each in events if _ends(each, begun)), None)
    erased = end.event if end and isinstance(end.event, ContentErased) else None
    target = traced.target
    leaves = parse_leaf_runs(target.leaves) or {}
    return ErasedSessionView(
        session=target.session,
        begun=begun,
        ended=end.sequence if end else None,
        ended_at=end.envelope.time if end else None,
        turns=tuple(ErasedTurnView(turn=each.turn, of=each.of) for each in target.turns),
        leaves=target.leaves,
        events=traced.reach.events,
        calls=traced.reach.calls,
        repeating_turns=traced.repeating_turns,
        generation=erased.generation if erased else None,
        record_before=erased.record_before if erased else None,
        record_after=erased.record_after if erased else None,
        left=tuple(
            each.sequence
            for each in events
            if erased and is_under(each, leaves) and not is_closed(each)
        ),
    )


def _ends(recorded: RecordedEvent, begun: int | None) -> bool:
    return isinstance(recorded.event, ContentErased) and recorded.event.begun == begun


def _build_receipt(
    session: str,
    reason: str,
    sessions: Sequence[ErasedSessionView],
    recorded: RecordedEvent | None = None,
) -> ErasureReceipt:
    return ErasureReceipt(
        session=session,
        erasure=recorded.sequence if recorded else None,
        at=recorded.envelope.time if recorded else None,
        by=recorded.envelope.actor if recorded else None,
        reason=reason,
        status=_decide_status(sessions) if recorded else "planned",
        sessions=tuple(sessions),
        kept_elsewhere=KEPT_ELSEWHERE,
    )


def _decide_status(sessions: Sequence[ErasedSessionView]) -> ErasureStatus:
    if any(each.left for each in sessions):
        return "incomplete"
    return "erased" if all(each.ended for each in sessions) else "begun"
