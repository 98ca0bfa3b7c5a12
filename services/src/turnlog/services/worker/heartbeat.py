"""The heartbeat of an attempt, and the check that it still holds the lease of its turn.

At each interval it confirms with the log's leader that the attempt is current, publishes a sign of
life and extends the delivery. A session watch reports changes at once; the interval catches what
the watch may have missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass

from turnlog.events.call import AttemptStarted
from turnlog.events.errors import Unavailable
from turnlog.events.kinds import Event
from turnlog.events.log.ports import TokenStream
from turnlog.events.tokens import AttemptAlive
from turnlog.events.turn import TurnCancelled, TurnCompleted, TurnFailed
from turnlog.projections.session.attempts import current
from turnlog.projections.session.commands import Attempt
from turnlog.services.runtime.sessions import Sessions
from turnlog.services.runtime.tasks import stopped
from turnlog.services.worker.delivery import Delivery


@dataclass(frozen=True, slots=True)
class Heart:
    """Sends heartbeats; `interval` is a third of the silence after which an attempt counts as dead.
    """

    sessions: Sessions
    tokens: TokenStream
    every: float

    @asynccontextmanager
    async def beating(
        self, delivery: Delivery, attempt: Attempt, after: int
    ) -> AsyncGenerator[asyncio.Event]:
        """Send heartbeats while the body runs; set the event once the lease is lost."""
        unwanted = asyncio.Event()
        tasks = (
            asyncio.create_task(self._beat(delivery, attempt, unwanted)),
            asyncio.create_task(self._notice(delivery, attempt, after, unwanted)),
        )
        try:
            yield unwanted
        finally:
            await stopped(*tasks)

    async def _beat(self, delivery: Delivery, attempt: Attempt, unwanted: asyncio.Event) -> None:
        alive = AttemptAlive(call=attempt.call, attempt=attempt.attempt)
        while True:
            await asyncio.sleep(self.every)
            with suppress(Unavailable):
                if not await self._confirmed(delivery, attempt):
                    unwanted.set()
                    return
                await self.tokens.publish(delivery.tenant, delivery.session, delivery.turn, alive)
                await delivery.in_progress()

    async def _confirmed(self, delivery: Delivery, attempt: Attempt) -> bool:
        state = await self.sessions.load(delivery.tenant, delivery.session, leader=True)
        return state is not None and current(state, attempt) is not None

    async def _notice(
        self, delivery: Delivery, attempt: Attempt, after: int, unwanted: asyncio.Event
    ) -> None:
        watching = self.sessions.log.watch(delivery.tenant, delivery.session, after)
        async with aclosing(watching) as events:
            async for recorded in events:
                if ends(recorded.event, attempt):
                    unwanted.set()
                    return


def ends(event: Event, attempt: Attempt) -> bool:
    """Return whether an event ends an attempt's lease of its turn."""
    match event:
        case TurnCompleted(turn=turn) | TurnFailed(turn=turn) | TurnCancelled(turn=turn):
            return turn == attempt.turn
        case AttemptStarted(turn=turn, attempt=later):
            return turn == attempt.turn and later > attempt.attempt
        case _:
            return False
