"""Run a delivered turn to its end, from the claim to the outcome on the log.

The claim is a compare-and-set on the session, so one worker at a time holds the lease of a turn. A
worker that is silent for too long is superseded. The session's own rules decide what may happen to
the turn; this module carries it out in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from turnlog.events.call import ContextAssembled
from turnlog.events.errors import Corrupt
from turnlog.events.log.ports import TokenStream
from turnlog.projections.blueprint.schema import Policies
from turnlog.projections.session.attempts import call_of, overdue
from turnlog.projections.session.commands import Attempt, ClaimTurn, CompleteTurn, Spent
from turnlog.projections.session.state import OpenTurn, SessionState
from turnlog.projections.window.material import Material
from turnlog.services.runtime.blueprints import BlueprintStore
from turnlog.services.runtime.prices import cost_of
from turnlog.services.runtime.sessions import By, Sessions
from turnlog.services.runtime.tasks import stopped
from turnlog.services.runtime.telemetry import Tracing, traceparent
from turnlog.services.worker.attempt import Speaking
from turnlog.services.worker.context import Contexts, Superseded
from turnlog.services.worker.delivery import Delivery, Later, Settled, Silent, Verdict
from turnlog.services.worker.ending import Again, Cut, End, Endings, verdict_for
from turnlog.services.worker.heartbeat import Heart
from turnlog.services.worker.model.exchange import Model
from turnlog.services.worker.recovery import spoken, whole_answer
from turnlog.services.worker.saying import Saying
from turnlog.services.worker.silence import silence_of
from turnlog.services.worker.tools.exchange import ToolServers
from turnlog.services.worker.tools.mcp_servers import McpServers
from turnlog.services.worker.tools.pinning import Pinning
from turnlog.services.worker.workings import work_of


@dataclass
class Answering:
    """Runs turns; one instance serves all deliveries of a worker."""

    name: str
    sessions: Sessions
    blueprints: BlueprintStore
    contexts: Contexts
    tokens: TokenStream
    model: Model
    heart: Heart
    endings: Endings
    tracing: Tracing
    ack_wait: float
    """Seconds of silence after which an attempt counts as dead."""
    servers: ToolServers = field(default_factory=McpServers)
    """The tool servers."""
    pinning: Pinning = field(default_factory=Pinning)
    """Snapshots of what the tool servers offer."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the worker must hand back its unfinished turns."""

    async def answer(self, delivery: Delivery) -> Verdict:
        """Do what is left to do for a turn, and return what to do with the delivery."""
        state = await self._state(delivery)
        opened = state.open if state else None
        if state is None or opened is None or opened.turn != delivery.turn:
            return Settled()
        material = await self.blueprints.load(state)
        policies = material.blueprint.conduct(state.profile)
        by = By("worker", opened.event, traceparent=traceparent())
        if opened.running and not overdue(opened, policies, self.sessions.clock()):
            patience = await self._patience(delivery, opened)
            if patience > 0:
                return Later(patience)
            if await self._completed_from_tokens(delivery, opened, material, by):
                return Settled()
        try:
            claimed = await self._claimed(delivery, state, opened, policies, by)
        except Superseded:
            return Later(self.ack_wait)
        if claimed.open is None or claimed.open.turn != delivery.turn:
            return Settled()
        return await self._work(delivery, claimed, claimed.open, material, by)

    async def _state(self, delivery: Delivery) -> SessionState | None:
        """Return the session's state, at the delivered event or later.

        For a first delivery the cached state is enough: the append settles whether the turn may be
        claimed. For a redelivery the log is asked who holds the lease now.
        """
        held = self.sessions.held.get(delivery.tenant, delivery.session)
        there = held and held.head.stream_sequence >= delivery.stream_sequence
        if there and not delivery.redelivered:
            return held
        state = await self.sessions.load(delivery.tenant, delivery.session)
        if state is None or state.head.stream_sequence < delivery.stream_sequence:
            return await self.sessions.load(delivery.tenant, delivery.session, leader=True)
        return state

    async def _patience(self, delivery: Delivery, opened: OpenTurn) -> float:
        """Return the seconds to leave a running attempt alone; 0 for a redelivery without tokens.
        """
        silent = await silence_of(self.tokens, delivery, opened.attempt)
        if silent is None:
            return 0 if delivery.redelivered else self.ack_wait
        return max(0.0, self.ack_wait - silent)

    async def _completed_from_tokens(
        self, delivery: Delivery, opened: OpenTurn, material: Material, by: By
    ) -> bool:
        """Complete the turn with what a dead worker published, if that is the whole answer."""
        held = await self.tokens.recorded(delivery.tenant, delivery.session, delivery.turn)
        whole = whole_answer(held, opened.attempt)
        if whole is None or opened.context is None:
            return False
        (context,) = await self.sessions.log.at(delivery.tenant, [opened.context.place])
        if not isinstance(context.event, ContextAssembled):
            raise Corrupt(f"event {context.sequence}", "it is not the context of a call")
        usage = whole.closed.usage
        cost = cost_of(context.event.model, usage, await self.endings.prices())
        attempt = Attempt(delivery.turn, whole.closed.call, opened.attempt)
        command = CompleteTurn(
            attempt,
            whole.text,
            whole.closed.finish,
            Spent(usage, cost),
            material.phases,
            whole.closed.tools,
            references=material.references,
            work=await work_of(self.sessions.texts, delivery.tenant, opened, material.blueprint),
        )
        await self.sessions.act(delivery.tenant, delivery.session, command, by)
        return True

    async def _claimed(
        self, delivery: Delivery, known: SessionState, seen: OpenTurn, policies: Policies, by: By
    ) -> SessionState:
        partial = await self._partial(delivery, seen)

        async def choose(state: SessionState | None) -> ClaimTurn | None:
            opened = state.open if state else None
            if opened is None or opened.turn != delivery.turn:
                return None
            if (opened.attempt, opened.running) != (seen.attempt, seen.running):
                raise Superseded
            return ClaimTurn(delivery.turn, self.name, policies, partial)

        done = await self.sessions.act(
            delivery.tenant, delivery.session, choose, by, presumed=known
        )
        return done.state

    async def _partial(self, delivery: Delivery, seen: OpenTurn) -> str:
        if not seen.running:
            return ""
        held = await self.tokens.recorded(delivery.tenant, delivery.session, delivery.turn)
        return spoken(held, seen.attempt)

    async def _work(
        self,
        delivery: Delivery,
        state: SessionState,
        opened: OpenTurn,
        material: Material,
        by: By,
    ) -> Verdict:
        seconds_open = material.blueprint.conduct(state.profile).deadline_seconds
        due = datetime.fromisoformat(opened.released_at) + timedelta(seconds=seconds_open)
        saying = Saying(
            self.sessions, self.contexts, self.servers, self.pinning, self.model, self.tracing
        )
        seconds = 0.0
        while True:
            attempt = Attempt(opened.turn, call_of(opened), opened.attempt)
            speaking = Speaking(
                delivery.tenant,
                delivery.session,
                attempt,
                self.tokens,
                material,
                material.stage(state),
                opened.attempt - opened.begun - 1,
                opened.answered > 0,
            )
            async with self.heart.beating(delivery, attempt, state.head.sequence) as unwanted:
                said = saying.say(speaking, state, seconds, by)
                try:
                    end = await self._until(said, unwanted, due)
                except Superseded:
                    return await self._overtaken(delivery, attempt)
            recorded = await self.endings.record(delivery, speaking, end, by)
            if not isinstance(recorded, Again):
                return recorded
            state, opened, seconds = recorded.state, recorded.opened, recorded.seconds

    async def _until(
        self, saying: Coroutine[Any, Any, End], unwanted: asyncio.Event, due: datetime
    ) -> End:
        """Wait until the call ends, is unwanted or overdue, or the worker stops."""
        task: asyncio.Task[End] = asyncio.create_task(saying)
        cuts: dict[asyncio.Task[Any], Cut] = {
            asyncio.create_task(unwanted.wait()): "unwanted",
            asyncio.create_task(self.stopping.wait()): "stopped",
        }
        left = (due - self.sessions.clock()).total_seconds()
        try:
            done, _ = await asyncio.wait(
                {task, *cuts}, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED
            )
            if task in done:
                return task.result()
            return _cut(cuts, done)
        finally:
            await stopped(task, *cuts)

    async def _overtaken(self, delivery: Delivery, attempt: Attempt) -> Verdict:
        state = await self.sessions.load(delivery.tenant, delivery.session, leader=True)
        return Silent() if state is None else verdict_for(state, attempt)


def _cut(cuts: dict[asyncio.Task[Any], Cut], done: set[asyncio.Task[Any]]) -> Cut:
    for task, cut in cuts.items():
        if task in done:
            return cut
    return "overdue"
