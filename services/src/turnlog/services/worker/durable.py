"""The durable: the one consumer all workers share, and the clock of every open turn.

Its message stays pending until the turn is settled. How far everything is settled is noted
beside the snapshots, so that a durable somebody deleted is made again from there; without a note
it begins at the start, which is safe, since settled turns are acknowledged as they come.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog
from nats import errors as nats_errors
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import APIError, NotFoundError
from pydantic import TypeAdapter, ValidationError

from turnlog.events.errors import Unavailable
from turnlog.events.ids import SESSIONS, TURNS_TO_TAKE
from turnlog.events.log.ports import Identity, Snapshots

DURABLE: Final = "workers"
"""The consumer all workers share. Never rename it: its position would be lost."""
MOST_PENDING: Final = 10_000
"""Open turns at once; each is pending for as long as it is open."""
LOOK_EVERY: Final = 2.0
"""Seconds between two looks whether the durable is still there."""
_NOTES: Final = ("_durables", DURABLE)
"""Where its position is noted, as tenant and session of a snapshot."""

_log = structlog.get_logger("turnlog.durable")


@dataclass(frozen=True, slots=True)
class Floor:
    """Up to where every turn of a log is settled."""

    stream: str
    created: str
    sequence: int


_FLOOR: Final = TypeAdapter(Floor)


@dataclass
class Durable:
    """Keeps the durable there."""

    js: JetStreamContext
    identity: Identity
    notes: Snapshots
    ack_wait: float
    noted: int = 0

    async def ensure(self) -> None:
        """Make the durable if it is missing, and note its position; raises `Unavailable`."""
        try:
            info = await self.js.consumer_info(SESSIONS, DURABLE)
        except NotFoundError:
            await self._make(await self._floor())
            return
        except (APIError, nats_errors.Error, TimeoutError) as error:
            raise Unavailable("durable", type(error).__name__) from error
        settled = info.ack_floor.stream_seq if info.ack_floor else 0
        if settled > self.noted:
            await self._note(settled)

    async def keep(self) -> None:
        """Look after it for ever."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                await self.ensure()
            except Unavailable as error:
                _log.warning("durable-out-of-reach", error=str(error))

    async def _make(self, floor: int) -> None:
        _log.warning("durable-made", after=floor)
        config = ConsumerConfig(
            durable_name=DURABLE,
            filter_subjects=list(TURNS_TO_TAKE),
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE if floor else DeliverPolicy.ALL,
            opt_start_seq=floor + 1 if floor else None,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=self.ack_wait,
            max_deliver=-1,
            max_ack_pending=MOST_PENDING,
        )
        try:
            await self.js.add_consumer(SESSIONS, config)
        except (APIError, nats_errors.Error, TimeoutError) as error:
            raise Unavailable("durable", type(error).__name__) from error

    async def _floor(self) -> int:
        stored = await self.notes.get(*_NOTES)
        try:
            floor = _FLOOR.validate_json(stored or b"")
        except ValidationError:
            return 0
        same = (floor.stream, floor.created) == (self.identity.stream, self.identity.created)
        return floor.sequence if same else 0

    async def _note(self, settled: int) -> None:
        floor = Floor(self.identity.stream, self.identity.created, settled)
        await self.notes.put(*_NOTES, _FLOOR.dump_json(floor))
        self.noted = settled
