"""Run a delivered turn to its end, from the claim to the outcome on the log.

The claim is a compare-and-set on the session, so one worker at a time holds the lease of a turn. A
worker that is silent for too long is superseded. The session's own rules decide what may happen to
the turn; this module carries it out in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, assert_never

from turnlog.events.async_tasks import run_tasks
from turnlog.events.model.attempt_figures import AttemptTimings, AttemptUsage
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.store.ports import TokenStream
from turnlog.projections.knowledge.search_port import KnowledgeSearch
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import AttemptRef
from turnlog.projections.session.open_turn import (
    ApprovalWait,
    ChildWait,
    EndedAttempt,
    OpenTurn,
    PromptedCall,
    RunningAttempt,
    UnclaimedTurn,
    find_situation,
    list_pending_children,
)
from turnlog.projections.session.rules.attempt_events import get_attempt_ref, is_overdue
from turnlog.projections.session.rules.outcome_commands import AttemptAnswer, build_outcome_command
from turnlog.projections.session.rules.steps.approval_rules import compute_approval_wait
from turnlog.projections.session.state import SessionState
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.blueprints.model_prices import compute_cost
from turnlog.services.caches.text_cache import read_event
from turnlog.services.platform.telemetry.traces import Tracing, get_traceparent
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.idempotent_commands import CommandMetadata
from turnlog.services.worker.attempt_heartbeat import AttemptHeartbeat
from turnlog.services.worker.attempts.active_attempt import (
    AttemptContext,
    create_report,
    start_attempt,
)
from turnlog.services.worker.attempts.attempt_outcomes import (
    AttemptEnd,
    NextAttempt,
    OutcomeRecorder,
    find_verdict,
)
from turnlog.services.worker.attempts.call_context import CallContextBuilder, describe_turn_work
from turnlog.services.worker.attempts.retrieval_step import EmptyKnowledge
from turnlog.services.worker.call_runner import CallRunner
from turnlog.services.worker.child_sessions import ChildSessions
from turnlog.services.worker.model.model_types import LanguageModel
from turnlog.services.worker.tools.tool_runner import ToolSnapshots
from turnlog.services.worker.tools.tool_servers import ToolServers
from turnlog.services.worker.tools.worker_tool_servers import WorkerToolServers
from turnlog.services.worker.turn_claim import (
    AttemptSuperseded,
    TurnClaims,
    compute_grace,
    recover_answer,
)
from turnlog.services.worker.turn_queue import (
    DeliveryDeferred,
    DeliverySettled,
    DeliverySuperseded,
    DeliveryVerdict,
    TurnDelivery,
)

APPROVAL_CHECK_SECONDS: Final = 300.0
"""Seconds after which the message of a turn that waits for an approval comes again at the latest.

A decision has a message of its own. This one is for the deadline, and is acknowledged so long after
the turn was settled meanwhile.
"""


CHILD_CHECK_SECONDS: Final = 30.0
"""Seconds after which the message of a turn that waits for children comes again at the latest.

A child that settles has a message of its own. This one is for children that take too long, and for
what a worker that died has left undone.
"""


@dataclass
class TurnRunner:
    """Runs turns; one instance serves all deliveries of a worker."""

    name: str
    sessions: CommandHandler
    blueprints: BlueprintStore
    contexts: CallContextBuilder
    tokens: TokenStream
    model: LanguageModel
    heartbeat: AttemptHeartbeat
    outcomes: OutcomeRecorder
    tracing: Tracing
    ack_wait: float
    """Seconds of silence after which an attempt counts as dead."""
    servers: ToolServers = field(default_factory=WorkerToolServers)
    """The tool servers."""
    tool_snapshots: ToolSnapshots = field(default_factory=ToolSnapshots)
    """Snapshots of what the tool servers offer."""
    knowledge: KnowledgeSearch = field(default_factory=EmptyKnowledge)
    """The search over the tenant's knowledge."""
    stop_requested: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the worker must hand back its unfinished turns."""

    async def run_turn(self, delivery: TurnDelivery) -> DeliveryVerdict:
        """Do what is left to do for a turn, and return what to do with the delivery.

        What ended a child's turn is in the parent's log before the message is acknowledged, so that
        it is not lost with the worker.
        """
        children = self._create_children()
        if delivery.settled_child is not None:
            await children.withdraw_turn(delivery.tenant, delivery.session, delivery.settled_child)
        verdict = await self._continue_turn(delivery)
        await children.report_end(delivery.tenant, delivery.session, delivery.turn)
        return verdict

    def _create_children(self) -> ChildSessions:
        return ChildSessions(self.sessions, self.blueprints, self.contexts.blobs)

    async def _continue_turn(self, delivery: TurnDelivery) -> DeliveryVerdict:
        state = await self._load_state(delivery)
        opened = state.open if state else None
        if state is None or opened is None or opened.turn != delivery.turn:
            return DeliverySettled()
        material = await self.blueprints.load_material(state)
        policies = material.blueprint.resolve_policies(state.profile)
        by = CommandMetadata("worker", opened.submission.event, traceparent=get_traceparent())
        at = self.sessions.clock()
        match find_situation(opened):
            case ApprovalWait() as waiting:
                if wait := compute_approval_wait(waiting, at):
                    return DeliveryDeferred(min(wait.total_seconds(), APPROVAL_CHECK_SECONDS))
            case ChildWait():
                return await self._wait_for_children(delivery, state, material, by)
            case RunningAttempt(attempt=attempt) if not is_overdue(opened, policies, at):
                grace = await compute_grace(self.tokens, delivery, attempt, self.ack_wait)
                if grace > 0:
                    return DeliveryDeferred(grace)
                if await self._complete_from_tokens(delivery, opened, material, by):
                    return DeliverySettled()
            case UnclaimedTurn() | RunningAttempt() | EndedAttempt():
                pass
            case _ as never:
                assert_never(never)
        claims = TurnClaims(self.name, self.sessions, self.tokens)
        try:
            claimed = await claims.claim_turn(delivery, state, opened, policies, by)
        except AttemptSuperseded:
            return DeliveryDeferred(self.ack_wait)
        if claimed.open is None or claimed.open.turn != delivery.turn:
            return DeliverySettled()
        if not claimed.open.is_running:
            return DeliveryDeferred(0)
        verdict = await self._run_calls(delivery, claimed, claimed.open, material, by)
        if isinstance(verdict, DeliverySuperseded):
            return verdict  # Whoever took the turn over asks the children that it requested since.
        reached = self.sessions.state_cache.get_state(delivery.tenant, delivery.session)
        if reached is None or not list_pending_children(reached.open):
            return verdict
        return await self._wait_for_children(delivery, reached, material, by)

    async def _wait_for_children(
        self,
        delivery: TurnDelivery,
        state: SessionState,
        material: SessionMaterial,
        by: CommandMetadata,
    ) -> DeliveryVerdict:
        """Ask the children of a turn that are not asked yet, and leave the turn until they settle.

        The message that tells of one settled child is not needed while others are pending: they
        have messages of their own, and so has the turn.
        """
        children = self._create_children()
        seconds = await children.advance_children(state, material, by)
        if delivery.settled_child is not None:
            return DeliverySettled()
        return DeliveryDeferred(min(seconds, CHILD_CHECK_SECONDS))

    async def _load_state(self, delivery: TurnDelivery) -> SessionState | None:
        """Return the session's state, at the delivered event or later.

        For a first delivery the cached state is enough: the append settles whether the turn may be
        claimed. For a redelivery the log is asked who holds the lease now.
        """
        cached = self.sessions.state_cache.get_state(delivery.tenant, delivery.session)
        is_recent = cached and cached.head.stream_sequence >= delivery.stream_sequence
        if is_recent and not delivery.redelivered:
            return cached
        state = await self.sessions.load_state(delivery.tenant, delivery.session)
        if state is None or state.head.stream_sequence < delivery.stream_sequence:
            return await self.sessions.load_state(delivery.tenant, delivery.session, leader=True)
        return state

    async def _complete_from_tokens(
        self,
        delivery: TurnDelivery,
        opened: OpenTurn,
        material: SessionMaterial,
        by: CommandMetadata,
    ) -> bool:
        """Complete the turn with what a dead worker published, if that is the whole answer."""
        events = await self.tokens.read_token_events(
            delivery.tenant, delivery.session, delivery.turn
        )
        recovered = recover_answer(events, opened.attempt)
        if recovered is None or not isinstance(opened.call, PromptedCall):
            return False
        place, tenant, closed = opened.call.manifest.place, delivery.tenant, recovered.closed
        context = await read_event(self.sessions.log, tenant, place, ContextAssembled)
        cost = compute_cost(context.model, closed.usage, await self.outcomes.prices())
        timings = AttemptTimings(first_token=closed.first_token, total=closed.total)
        spent = AttemptUsage(
            usage=closed.usage,
            cost=cost,
            timings=timings,
            response_id=closed.response_id,
            ratings=closed.ratings,
        )
        attempt = AttemptRef(delivery.turn, closed.call, opened.attempt)
        work = await describe_turn_work(self.sessions.texts, tenant, opened, material.blueprint)
        report = replace(create_report(material, attempt, "reply", spent), work=work)
        answer = AttemptAnswer(recovered.text, closed.finish, closed.tools)
        command = build_outcome_command(report, answer)
        await self.sessions.handle(delivery.tenant, delivery.session, command, by)
        return True

    async def _run_calls(
        self,
        delivery: TurnDelivery,
        state: SessionState,
        opened: OpenTurn,
        material: SessionMaterial,
        by: CommandMetadata,
    ) -> DeliveryVerdict:
        seconds_open = material.blueprint.resolve_policies(state.profile).deadline_seconds
        due = datetime.fromisoformat(opened.released_at) + timedelta(seconds=seconds_open)
        calls = CallRunner(
            self.sessions,
            self.contexts,
            self.servers,
            self.tool_snapshots,
            self.model,
            self.knowledge,
            self.tracing,
        )
        seconds = 0.0
        while True:
            attempt = get_attempt_ref(opened)
            context = AttemptContext(
                delivery.tenant,
                delivery.session,
                attempt,
                material,
                material.find_stage(state),
                prior_attempts=opened.call_attempts - 1,
                has_prior_calls=opened.call.before > 0,
                replacement=material.get_replacement(state),
            )
            active = start_attempt(context, self.tokens)
            try:
                async with self.heartbeat.run_heartbeat(
                    delivery, attempt, state.head.sequence
                ) as lease_lost:
                    running = calls.run_call(active, state, seconds, by)
                    end = await self._wait_for_end(running, lease_lost, due)
                recorded = await self.outcomes.record_end(active, end, by)
            except AttemptSuperseded:
                return await self._settle_superseded(delivery, attempt)
            except Exception:
                await active.publisher.confirm_abandoning(active.attempt, self.ack_wait)
                raise
            if not isinstance(recorded, NextAttempt):
                return recorded
            state, opened, seconds = recorded.state, recorded.opened, recorded.seconds

    async def _wait_for_end(
        self, running: Coroutine[Any, Any, AttemptEnd], lease_lost: asyncio.Event, due: datetime
    ) -> AttemptEnd:
        """Wait until the call ends, is unwanted or overdue, or the worker stops."""
        left = (due - self.sessions.clock()).total_seconds()
        async with run_tasks(running, lease_lost.wait(), self.stop_requested.wait()) as tasks:
            call, unwanted, stopped = tasks
            await asyncio.wait(tasks, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
            if call.done():
                end: AttemptEnd = call.result()
                return end
            if unwanted.done():
                return "unwanted"
            return "stopped" if stopped.done() else "overdue"

    async def _settle_superseded(
        self, delivery: TurnDelivery, attempt: AttemptRef
    ) -> DeliveryVerdict:
        state = await self.sessions.load_state(delivery.tenant, delivery.session, leader=True)
        return DeliverySuperseded() if state is None else find_verdict(state, attempt)
