"""The lease of an attempt: its heartbeat, and how its worker learns that the lease is lost.

At each interval it confirms with the log's leader that the attempt is current, and publishes a sign
of life. In between it watches the session, which reports changes at once; the
interval catches what the watch may have missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from turnlog.events.async_tasks import WAKE_SECONDS, Watch, run_tasks, wait_for_wake
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Unavailable, UnreadableEnd
from turnlog.events.model.call_events import AttemptStarted
from turnlog.events.model.turn_events import is_end_of_turn
from turnlog.events.registry import Event
from turnlog.events.store.ports import TokenStream
from turnlog.projections.session.commands import AttemptRef
from turnlog.projections.session.rules.attempt_events import find_claimed_turn
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.worker.attempts.active_attempt import ActiveAttempt
from turnlog.services.worker.turn_delivery import TurnDelivery


@dataclass(frozen=True, slots=True)
class AttemptHeartbeat:
    """Sends heartbeats.

    `interval` is a third of the silence after which an attempt counts as dead.
    """

    sessions: CommandHandler
    tokens: TokenStream
    interval: float

    @asynccontextmanager
    async def run_heartbeat(
        self, delivery: TurnDelivery, active: ActiveAttempt
    ) -> AsyncGenerator[asyncio.Event]:
        """Send heartbeats while the body runs; set the event once the lease is lost."""
        lease_lost, wake = asyncio.Event(), asyncio.Event()
        log, after = self.sessions.log, active.context.state.head.sequence
        async with (
            log.open_session_watch(delivery.tenant, delivery.session, after, wake) as watch,
            run_tasks(
                self._keep_lease(
                    delivery=delivery,
                    active=active,
                    watch=watch,
                    wake=wake,
                    lease_lost=lease_lost,
                )
            ),
        ):
            yield lease_lost

    async def _keep_lease(
        self,
        delivery: TurnDelivery,
        active: ActiveAttempt,
        watch: Watch[RecordedEvent],
        wake: asyncio.Event,
        lease_lost: asyncio.Event,
    ) -> None:
        clock = asyncio.get_running_loop().time
        due = clock() + self.interval
        while True:
            wake.clear()
            try:
                while recorded := await watch.take_next():
                    if is_ended_by(recorded.event, active.context.attempt):
                        lease_lost.set()
                        return
            except UnreadableEnd:
                lease_lost.set()  # Nothing more can be recorded of it.
                return
            except Corrupt:
                pass  # Then the interval alone finds out.
            if clock() >= due:
                if not await self._send_heartbeat(delivery, active):
                    lease_lost.set()
                    return
                due = clock() + self.interval
            await wait_for_wake(wake, min(WAKE_SECONDS, due - clock()))

    async def _send_heartbeat(self, delivery: TurnDelivery, active: ActiveAttempt) -> bool:
        """Publish that the attempt is alive; return whether it still holds the lease."""
        with suppress(Unavailable):
            if not await self._is_current(delivery, active.context.attempt):
                return False
            await active.publish_heartbeat()
        return True

    async def _is_current(self, delivery: TurnDelivery, attempt: AttemptRef) -> bool:
        state = await self.sessions.load_state(delivery.tenant, delivery.session, leader=True)
        return state is not None and find_claimed_turn(state, attempt) is not None


def is_ended_by(event: Event, attempt: AttemptRef) -> bool:
    """Return whether an event ends an attempt's lease: a later attempt, or the end of the turn."""
    match event:
        case AttemptStarted(turn=turn, attempt=later):
            return turn == attempt.turn and later > attempt.attempt
        case _:
            return is_end_of_turn(event, attempt.turn)
