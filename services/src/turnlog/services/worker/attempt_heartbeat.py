"""The lease of an attempt: its heartbeat, and how its worker learns that the lease is lost.

At each interval it confirms with the log's leader that the attempt is current, publishes a sign of
life and extends the delivery. A session watch reports changes at once; the interval catches what
the watch may have missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass

from turnlog.events.async_tasks import run_tasks
from turnlog.events.errors import Unavailable
from turnlog.events.model.call_events import AttemptStarted
from turnlog.events.model.turn_events import is_end_of_turn
from turnlog.events.registry import Event
from turnlog.events.store.ports import TokenStream
from turnlog.events.tokens import AttemptAlive
from turnlog.projections.session.commands import AttemptRef
from turnlog.projections.session.rules.attempt_events import find_claimed_turn
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.worker.turn_queue import TurnDelivery


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
        self, delivery: TurnDelivery, attempt: AttemptRef, after: int
    ) -> AsyncGenerator[asyncio.Event]:
        """Send heartbeats while the body runs; set the event once the lease is lost."""
        lease_lost = asyncio.Event()
        async with run_tasks(
            self._send_heartbeats(delivery, attempt, lease_lost),
            self._watch_session(delivery, attempt, after, lease_lost),
        ):
            yield lease_lost

    async def _send_heartbeats(
        self, delivery: TurnDelivery, attempt: AttemptRef, lease_lost: asyncio.Event
    ) -> None:
        alive = AttemptAlive(call=attempt.call, attempt=attempt.attempt)
        while True:
            await asyncio.sleep(self.interval)
            with suppress(Unavailable):
                if not await self._is_current(delivery, attempt):
                    lease_lost.set()
                    return
                await self.tokens.publish_token(
                    delivery.tenant, delivery.session, delivery.turn, alive
                )
                await delivery.extend_delivery()

    async def _is_current(self, delivery: TurnDelivery, attempt: AttemptRef) -> bool:
        state = await self.sessions.load_state(delivery.tenant, delivery.session, leader=True)
        return state is not None and find_claimed_turn(state, attempt) is not None

    async def _watch_session(
        self, delivery: TurnDelivery, attempt: AttemptRef, after: int, lease_lost: asyncio.Event
    ) -> None:
        watching = self.sessions.log.watch_session(delivery.tenant, delivery.session, after)
        async with aclosing(watching) as events:
            async for recorded in events:
                if is_ended_by(recorded.event, attempt):
                    lease_lost.set()
                    return


def is_ended_by(event: Event, attempt: AttemptRef) -> bool:
    """Return whether an event ends an attempt's lease: a later attempt, or the end of the turn."""
    match event:
        case AttemptStarted(turn=turn, attempt=later):
            return turn == attempt.turn and later > attempt.attempt
        case _:
            return is_end_of_turn(event, attempt.turn)
