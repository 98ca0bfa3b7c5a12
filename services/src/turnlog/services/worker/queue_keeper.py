"""Keeps the durable consumer behind the workers in existence, and its position.

The durable consumer is the clock of every open turn: a message stays pending until its turn is
settled. The position up to which all turns are settled is saved beside the snapshots, so that a
deleted consumer is recreated from there. Without a saved position it starts at the beginning. That
is safe, since messages of settled turns are acknowledged at once.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Final

import structlog
from nats import errors as nats_errors
from nats.js.api import ConsumerInfo
from nats.js.errors import APIError
from pydantic import TypeAdapter, ValidationError

from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.nats_connection import NatsConnection, wait_backoff
from turnlog.events.jetstream.work_queue import WorkQueueOptions, ensure_work_queue
from turnlog.events.store.ports import LogIdentity, SnapshotStore
from turnlog.events.subjects import SESSIONS_STREAM, WORKERS_CONSUMER
from turnlog.services.platform.telemetry.reading_gauges import ReadingGauge

MAX_PENDING_TURNS: Final = 10_000
"""Maximum number of open turns; the message of each is pending while it is open."""

CHECK_SECONDS: Final = 2.0
"""Seconds between two checks of whether the durable consumer exists."""

START_SECONDS: Final = 30.0
"""Seconds that a start waits for streams that were created a moment ago and have no leader yet."""

EXPIRY_SECONDS: Final = 0.5
"""Seconds that the server has to see that deliveries have expired; it looks after 0.1 s."""

DEPTH_METRIC: Final = "turnlog.queue.depth"

_SHORTEST_WAIT: Final = 0.001

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


def _create_depth_gauge() -> ReadingGauge:
    return ReadingGauge(
        DEPTH_METRIC,
        "turnlog.queue.state",
        unit="{turn}",
        description="Turns that no worker has taken yet, and turns that are not settled since",
    )


@dataclass(kw_only=True)
class QueueKeeper:
    """Keeps the durable consumer in existence."""

    connection: NatsConnection
    identity: LogIdentity
    snapshots: SnapshotStore
    redelivery_wait: float
    """Seconds after which the server delivers a turn again that nobody extends."""
    position: int | None = None
    """The position as it was last read or saved."""
    depth: ReadingGauge = field(default_factory=_create_depth_gauge)
    """The turns of the queue, as every worker measures them."""

    async def ensure_consumer(self) -> None:
        """Create the durable consumer if it is missing, and save its position.

        Raises `Unavailable`, and `Corrupt` for a consumer that would lose turns.
        """
        floor = await self._load_position() if self.position is None else self.position
        self.position = floor
        if await self._ensure_options(self.redelivery_wait, floor):
            _log.info("consumer-created", after=floor)
        settled = await self.fetch_settled_sequence()
        if settled > floor:
            await self._save_position(settled)

    async def wait_for_consumer(self) -> None:
        """Ensure the consumer; wait while no server leads its stream."""
        failures, started_at = 0, time.monotonic()
        while True:
            try:
                return await self.ensure_consumer()
            except Unavailable:
                if time.monotonic() - started_at > START_SECONDS:
                    raise
            failures += 1
            await wait_backoff(failures)

    async def redeliver_pending(self) -> None:
        """Have every message redelivered that a worker before this one has left unsettled.

        Only for a worker that knows to be alone, and before it takes a turn: messages that another
        one works on would be delivered twice.
        """
        if (await self._fetch_info()).num_ack_pending == 0:
            return
        await self._ensure_options(_SHORTEST_WAIT, 0)
        await asyncio.sleep(EXPIRY_SECONDS)
        await self._ensure_options(self.redelivery_wait, 0)

    async def _ensure_options(self, wait: float, floor: int) -> bool:
        """Ensure that the consumer exists with this wait; return whether it was created."""
        options = WorkQueueOptions(wait, MAX_PENDING_TURNS)
        return await ensure_work_queue(self.connection, options, start=floor + 1)

    async def watch_consumer(self) -> None:
        """Check it at intervals until cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self.ensure_consumer()
            except Unavailable as error:
                _log.warning("consumer-unreachable", error=str(error))

    async def fetch_settled_sequence(self) -> int:
        """Return the sequence up to which every turn is settled; raises `Unavailable`."""
        info = await self._fetch_info()
        return info.ack_floor.stream_seq if info.ack_floor else 0

    async def _fetch_info(self) -> ConsumerInfo:
        try:
            info: ConsumerInfo = await self.connection.nc.jetstream().consumer_info(
                SESSIONS_STREAM, WORKERS_CONSUMER
            )
            self.depth.record_reading(
                {"undelivered": info.num_pending or 0, "delivered": info.num_ack_pending or 0}
            )
            return info
        except (APIError, nats_errors.Error, TimeoutError) as error:
            raise Unavailable("durable", type(error).__name__) from error

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
