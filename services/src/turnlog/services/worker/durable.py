from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog
from nats import errors as nats_errors
from nats.js.errors import APIError
from pydantic import TypeAdapter, ValidationError

from turnlog.events.errors import Unavailable
from turnlog.events.ids import SESSIONS_STREAM
from turnlog.events.log.ports import LogIdentity, SnapshotStore
from turnlog.events.nats.connection import NatsConnection
from turnlog.events.nats.workers import WORKERS_CONSUMER, WorkQueueOptions, ensure_work_queue

MAX_PENDING_TURNS: Final = 10_000
"""Maximum number of open turns; the message of each is pending while it is open."""
CHECK_SECONDS: Final = 2.0
"""Seconds between two checks of whether the durable consumer exists."""
_POSITION_KEY: Final = ("_durables", WORKERS_CONSUMER)
"""Where the position is saved, as tenant and session of a snapshot."""

_log = structlog.get_logger("turnlog.durable")


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The position up to which every turn of a log is settled."""

    stream: str
    created: str
    sequence: int


_POSITION_ADAPTER: Final = TypeAdapter(QueuePosition)


@dataclass
class QueueKeeper:
    """Keeps the durable consumer in existence."""

    connection: NatsConnection
    identity: LogIdentity
    snapshots: SnapshotStore
    ack_wait: float
    position: int | None = None
    """The position as it was last read or saved."""

    async def ensure_consumer(self) -> None:
        """Create the durable consumer if it is missing, and save its position.

        Raises `Unavailable`, and `Corrupt` for a consumer that would lose turns.
        """
        floor = await self._load_position() if self.position is None else self.position
        self.position = floor
        handout = WorkQueueOptions(self.ack_wait, MAX_PENDING_TURNS)
        if await ensure_work_queue(self.connection, handout, start=floor + 1):
            _log.info("durable-made", after=floor)
        settled = await self.fetch_settled_sequence()
        if settled > floor:
            await self._save_position(settled)

    async def watch_consumer(self) -> None:
        """Check it at intervals until cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self.ensure_consumer()
            except Unavailable as error:
                _log.warning("durable-out-of-reach", error=str(error))

    async def fetch_settled_sequence(self) -> int:
        """Return the sequence up to which every turn is settled; raises `Unavailable`."""
        try:
            info = await self.connection.nc.jetstream().consumer_info(SESSIONS_STREAM, WORKERS_CONSUMER)
        except (APIError, nats_errors.Error, TimeoutError) as error:
            raise Unavailable("durable", type(error).__name__) from error
        return info.ack_floor.stream_seq if info.ack_floor else 0

    async def _load_position(self) -> int:
        stored = await self.snapshots.get_snapshot(*_POSITION_KEY)
        try:
            floor = _POSITION_ADAPTER.validate_json(stored or b"")
        except ValidationError:
            return 0
        same = (floor.stream, floor.created) == (self.identity.stream, self.identity.created)
        return floor.sequence if same else 0

    async def _save_position(self, settled: int) -> None:
        floor = QueuePosition(self.identity.stream, self.identity.created, settled)
        await self.snapshots.put_snapshot(*_POSITION_KEY, _POSITION_ADAPTER.dump_json(floor))
        self.position = settled
