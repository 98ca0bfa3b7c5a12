"""The durable's keeper: it is there, and how far everything is settled is noted.

The durable is the clock of every open turn: its message stays pending until the turn is settled.
How far that has come is noted beside the snapshots, so that a durable somebody deleted is made
again from there; without a note it begins at the start, which is safe, since settled turns are
acknowledged as they come.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog
from nats import errors as nats_errors
from nats.js.errors import APIError
from pydantic import TypeAdapter, ValidationError

from turnlog.events.errors import Unavailable
from turnlog.events.ids import SESSIONS
from turnlog.events.log.ports import Identity, Snapshots
from turnlog.events.nats.connection import Connection
from turnlog.events.nats.workers import WORKERS, Handout, provide_workers

MOST_PENDING: Final = 10_000
"""Open turns at once; each is pending for as long as it is open."""
LOOK_EVERY: Final = 2.0
"""Seconds between two looks whether the durable is still there."""
_NOTES: Final = ("_durables", WORKERS)
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

    connection: Connection
    identity: Identity
    notes: Snapshots
    ack_wait: float
    floor: int | None = None
    """As it was last read or noted."""

    async def ensure(self) -> None:
        """Make the durable if it is missing, and note its position.

        Raises `Unavailable`, and `Corrupt` for a durable that would lose turns.
        """
        floor = await self._noted() if self.floor is None else self.floor
        self.floor = floor
        handout = Handout(self.ack_wait, MOST_PENDING)
        if await provide_workers(self.connection, handout, start=floor + 1):
            _log.info("durable-made", after=floor)
        settled = await self.settled()
        if settled > floor:
            await self._note(settled)

    async def keep(self) -> None:
        """Look after it for ever."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                await self.ensure()
            except Unavailable as error:
                _log.warning("durable-out-of-reach", error=str(error))

    async def settled(self) -> int:
        """Up to where every turn is settled; raises `Unavailable` without an answer."""
        try:
            info = await self.connection.nc.jetstream().consumer_info(SESSIONS, WORKERS)
        except (APIError, nats_errors.Error, TimeoutError) as error:
            raise Unavailable("durable", type(error).__name__) from error
        return info.ack_floor.stream_seq if info.ack_floor else 0

    async def _noted(self) -> int:
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
        self.floor = settled
