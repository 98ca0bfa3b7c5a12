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
"""Maximum number of open turns; the message of each is pending while it is open."""
LOOK_EVERY: Final = 2.0
"""Seconds between two checks of whether the durable consumer exists."""
_NOTES: Final = ("_durables", WORKERS)
"""Where the position is saved, as tenant and session of a snapshot."""

_log = structlog.get_logger("turnlog.durable")


@dataclass(frozen=True, slots=True)
class Floor:
    """The position up to which every turn of a log is settled."""

    stream: str
    created: str
    sequence: int


_FLOOR: Final = TypeAdapter(Floor)


@dataclass
class Durable:
    """Keeps the durable consumer in existence."""

    connection: Connection
    identity: Identity
    notes: Snapshots
    ack_wait: float
    floor: int | None = None
    """The position as it was last read or saved."""

    async def ensure(self) -> None:
        """Create the durable consumer if it is missing, and save its position.

        Raises `Unavailable`, and `Corrupt` for a consumer that would lose turns.
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
        """Check it at intervals until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                await self.ensure()
            except Unavailable as error:
                _log.warning("durable-out-of-reach", error=str(error))

    async def settled(self) -> int:
        """Return the sequence up to which every turn is settled; raises `Unavailable`."""
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
