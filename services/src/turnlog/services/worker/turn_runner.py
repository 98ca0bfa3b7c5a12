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
from turnlog.events.errors import Unavailable
from turnlog.events.model.attempt_figures import AttemptTimings, AttemptUsage
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.store.ports import TokenStream
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.knowledge.search_port import KnowledgeSearch
from turnlog.projections.session.commands import FailBrokenTurn
from turnlog.projections.session.open_turn import (
    ApprovalWait,
    ChildWait,
    EndedAttempt,
    PromptedCall,
    RunningAttempt,
    UnclaimedTurn,
    find_situation,
    list_pending_children,
)
from turnlog.projections.session.rules.attempt_events import is_overdue
from turnlog.projections.session.rules.outcome_commands import AttemptAnswer, build_outcome_command
from turnlog.projections.session.rules.steps.approval_rules import compute_approval_wait
from turnlog.projections.session.state import SessionState
from turnlog.services.blueprints.blueprint_store import BlueprintStore
from turnlog.services.caches.text_cache import read_event
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.platform.telemetry.traces import Tracing
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.cut_replies import read_shown_text
from turnlog.services.worker.attempts.active_attempt import create_report, start_attempt
from turnlog.services.worker.attempts.attempt_heartbeats import AttemptHeartbeat
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
from turnlog.services.worker.model.provider_keys import ProviderKeys
from turnlog.services.worker.tools.tool_server_types import ToolServers
from turnlog.services.worker.tools.tool_snapshots import ToolSnapshots
from turnlog.services.worker.tools.worker_tool_servers import WorkerToolServers
from turnlog.services.worker.turn_claim import TurnClaims, compute_grace, recover_answer
from turnlog.services.worker.turn_context import (
    AttemptSuperseded,
    TurnContext,
    append_command,
    open_context,
    trace_failed_turn,
    trace_opened_turn,
)
from turnlog.services.worker.turn_delivery import (
    DeliveryDeferred,
    DeliverySettled,
    DeliverySuperseded,
    DeliveryVerdict,
    TurnDelivery,
    TurnKey,
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


@dataclass(kw_only=True)
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
    provider_keys: ProviderKeys | None = None
    """The tenants' own keys of providers; None if nobody has any."""
    is_alone: bool = False
    """Whether no other worker exists. An attempt of its own that it does not run is dead."""
    stop_requested: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the worker must hand back its unfinished turns."""
    _running: list[TurnKey] = field(default_factory=list[TurnKey])
    """What is claimed or running here; for a moment a turn may be in it twice."""

    async def run_turn(self, delivery: TurnDelivery) -> DeliveryVerdict:
        """Do what is left to do for a turn, and return what to do with the delivery.

        What ended a child's turn is in the parent's log before the message is acknowledged, so that
        it is not lost with the worker.
        """
        children = self._create_children()
        try:
            if (settled := delivery.settled_child) is not None:
                await children.withdraw_turn(delivery.tenant, delivery.session, settled)
            verdict = await self._continue_turn(delivery)
            await children.report_end(delivery.tenant, delivery.session, delivery.turn)
        except Unavailable:
            raise
        except Exception:
            await self._fail_broken_turn(delivery)
            raise
        return verdict

    async def _fail_broken_turn(self, delivery: TurnDelivery) -> None:
        """Fail a turn past its deadline; an error in the code would leave it open for ever."""
        state = await self.sessions.load_state(delivery.tenant, delivery.session, leader=True)
        if state is None or state.open is None or state.open.turn != delivery.turn:
            return
        policies = await self._load_policies(state)
        shown = await read_shown_text(self.tokens, state.tenant, state.session, state.open)
        command = FailBrokenTurn(delivery.turn, policies, shown)
        by = CommandMetadata("worker", state.open.submission.event)
        done = await self.sessions.handle(delivery.tenant, delivery.session, command, by)
        trace_failed_turn(done.events)

    async def _load_policies(self, state: SessionState) -> Policies:
        """Return a session's policies; the defaults where its blueprint cannot be read."""
        try:
            material = await self.blueprints.load_material(state)
            return material.blueprint.resolve_policies(state.profile)
        except Exception:  # noqa: BLE001 - it may be the very error that ends each attempt
            return Policies()

    def _create_children(self) -> ChildSessions:
        return ChildSessions(self.sessions, self.blueprints, self.contexts.blobs)

    async def _continue_turn(self, delivery: TurnDelivery) -> DeliveryVerdict:
        state = await self._load_state(delivery)
        opened = state.open if state else None
        if state is None or opened is None or opened.turn != delivery.turn:
            return DeliverySettled()
        context = open_context(state, opened, await self.blueprints.load_material(state))
        if verdict := await self._check_situation(delivery, context):
            return verdict
        self._running.append(delivery.key)
        try:
            verdict = await self._claim_and_run(delivery, context)
        finally:
            self._running.remove(delivery.key)
        if isinstance(verdict, DeliverySuperseded):
            return verdict  # Whoever took the turn over asks the children that it requested since.
        reached = self.sessions.state_cache.get_state(delivery.tenant, delivery.session)
        if reached is None or not list_pending_children(reached.open):
            return verdict
        return await self._wait_for_children(delivery, context.move_to(reached))

    async def _claim_and_run(self, delivery: TurnDelivery, context: TurnContext) -> DeliveryVerdict:
        claims = TurnClaims(self.name, self.sessions, self.tokens)
        try:
            claimed = await claims.claim_turn(context)
        except AttemptSuperseded:
            return DeliveryDeferred(self.ack_wait)
        trace_opened_turn(context)
        if claimed.open is None or claimed.open.turn != delivery.turn:
            return DeliverySettled()
        if not claimed.open.is_running:
            return DeliveryDeferred(0)
        return await self._run_calls(delivery, context.begin_attempt(claimed, claimed.open))

    async def _check_situation(
        self, delivery: TurnDelivery, context: TurnContext
    ) -> DeliveryVerdict | None:
        """Return what to do with the delivery of a turn that may not be claimed now, or None."""
        opened, at = context.require_turn(), self.sessions.clock()
        match find_situation(opened):
            case ApprovalWait() as waiting:
                wait = compute_approval_wait(waiting, at).total_seconds()
                return DeliveryDeferred(min(wait, APPROVAL_CHECK_SECONDS)) if wait else None
            case ChildWait():
                return await self._wait_for_children(delivery, context)
            case RunningAttempt() as running if not is_overdue(opened, context.policies, at):
                return await self._check_running_attempt(delivery, context, running)
            case UnclaimedTurn() | RunningAttempt() | EndedAttempt():
                return None
            case _ as never:
                assert_never(never)

    async def _check_running_attempt(
        self, delivery: TurnDelivery, context: TurnContext, running: RunningAttempt
    ) -> DeliveryVerdict | None:
        """Leave a turn to the attempt that runs, or complete it with what that left; else None."""
        is_ours = self.is_alone or running.worker == self.name
        runs_here = is_ours and delivery.key in self._running
        if not is_ours or runs_here:
            grace = await compute_grace(
                self.tokens, delivery, running.attempt, self.ack_wait, runs_here=runs_here
            )
            if grace > 0:
                return DeliveryDeferred(grace)
        return await self._complete_from_tokens(context)

    async def _wait_for_children(
        self, delivery: TurnDelivery, context: TurnContext
    ) -> DeliveryVerdict:
        """Ask the children of a turn that are not asked yet, and leave the turn until they settle.

        The message that tells of one settled child is not needed while others are pending: they
        have messages of their own, and so has the turn.
        """
        seconds = await self._create_children().advance_children(context)
        if delivery.settled_child is not None:
            return DeliverySettled()
        return DeliveryDeferred(min(seconds, CHILD_CHECK_SECONDS))

    async def _load_state(self, delivery: TurnDelivery) -> SessionState | None:
        """Return the session's state, at the delivered event or later.

        For a first delivery the cached state is enough: the append settles whether the turn may be
        claimed. After that the log is asked who holds the lease now.
        """
        cached = self.sessions.state_cache.get_state(delivery.tenant, delivery.session)
        is_recent = cached and cached.head.stream_sequence >= delivery.stream_sequence
        if is_recent and not delivery.is_repeated:
            return cached
        state = await self.sessions.load_state(delivery.tenant, delivery.session)
        if state is None or state.head.stream_sequence < delivery.stream_sequence:
            return await self.sessions.load_state(delivery.tenant, delivery.session, leader=True)
        return state

    async def _complete_from_tokens(self, context: TurnContext) -> DeliveryVerdict | None:
        """Record what a dead worker published, if that is a whole answer; else return None.

        The turn may go on after that answer, and another worker may have taken it over meanwhile.
        """
        opened, tenant = context.require_turn(), context.tenant
        events = await self.tokens.read_token_events(tenant, context.session, opened.turn)
        recovered = recover_answer(events, opened.attempt)
        if recovered is None or not isinstance(opened.call, PromptedCall):
            return None
        trace_opened_turn(context)
        place, closed = opened.call.manifest.place, recovered.closed
        recorded = await read_event(self.sessions.log, tenant, place, ContextAssembled)
        cost = await self.outcomes.pricing.compute_attempt_cost(recorded.model, closed.usage)
        timings = AttemptTimings(first_token=closed.first_token, total=closed.total)
        spent = AttemptUsage(
            usage=closed.usage,
            cost=cost,
            timings=timings,
            response_id=closed.response_id,
            ratings=closed.ratings,
            finish_sent=closed.finish_sent,
        )
        attempt = replace(context.attempt, call=closed.call)
        work = await describe_turn_work(
            self.sessions.texts, tenant, opened, context.material.blueprint
        )
        report = replace(
            create_report(context.material, attempt, "reply", spent),
            work=work,
            reasoning=closed.reasoning or "",
            parts=closed.parts,
            shown_text=recovered.text,
        )
        answer = AttemptAnswer(text=recovered.text, finish=closed.finish, tools=closed.tools)
        after = await append_command(self.sessions, context, build_outcome_command(report, answer))
        self.outcomes.costs.record_cost(recorded.model, cost)
        return find_verdict(after.state, context.attempt)

    async def _run_calls(self, delivery: TurnDelivery, context: TurnContext) -> DeliveryVerdict:
        """Run the calls of a claimed turn, one after the other, until it ends or is not ours."""
        due = datetime.fromisoformat(context.require_turn().released_at) + timedelta(
            seconds=context.policies.deadline_seconds
        )
        calls = CallRunner(
            sessions=self.sessions,
            contexts=self.contexts,
            servers=self.servers,
            tool_snapshots=self.tool_snapshots,
            model=self.model,
            knowledge=self.knowledge,
            tracing=self.tracing,
            provider_keys=self.provider_keys,
        )
        seconds = 0.0
        while True:
            active = start_attempt(context, self.tokens)
            try:
                async with self.heartbeat.run_heartbeat(delivery, active) as lease_lost:
                    running = calls.run_call(active, seconds)
                    end = await self._wait_for_end(running, lease_lost, due)
                recorded = await self.outcomes.record_end(active, end)
            except AttemptSuperseded:
                return await self._settle_superseded(context)
            except Exception:
                await active.publisher.confirm_abandoning(active.attempt, self.ack_wait)
                raise
            if not isinstance(recorded, NextAttempt):
                return recorded
            context, seconds = recorded.context, recorded.seconds

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

    async def _settle_superseded(self, context: TurnContext) -> DeliveryVerdict:
        state = await self.sessions.load_state(context.tenant, context.session, leader=True)
        return DeliverySuperseded() if state is None else find_verdict(state, context.attempt)
