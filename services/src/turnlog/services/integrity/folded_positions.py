"""What the read models are folded up to, and how a role without a database learns it.

The read models outlive the store of the log. So their positions, and nothing in the store itself,
show that a whole store was restored from an older copy. Gateways and projectors read them from the
database, and answer workers, which have none, over NATS.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, Protocol

import structlog
from pydantic import TypeAdapter, ValidationError

from turnlog.events.content import Digest
from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.nats_connection import (
    NatsConnection,
    answer_requests,
    wait_backoff,
)
from turnlog.events.store.ports import LogIdentity
from turnlog.events.subjects import POSITIONS_SUBJECT
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.write.projection_positions import read_active_position
from turnlog.projections.store.write.segment_projection import read_segments_position
from turnlog.services.integrity.row_rollback_check import FoldedPosition
from turnlog.services.platform.process_health import CHECK_TIMEOUT

PEER_PATIENCE: Final = 10.0
"""Seconds that a worker waits for a role with read models; roles that start together take two."""

ANSWER_SECONDS: Final = 1.0
"""Seconds until a request is repeated, since a role that cannot read its database is silent."""

_log = structlog.get_logger("turnlog.integrity")


@dataclass(frozen=True, slots=True)
class ReportedPosition:
    """The log that rows are folded from, and the last event folded."""

    log: LogIdentity
    position: int
    hash: Digest | None


@dataclass(frozen=True, slots=True)
class FoldedPositions:
    """The positions of both logs; None for one without rows."""

    sessions: ReportedPosition | None
    segments: ReportedPosition | None


_POSITIONS_ADAPTER: Final = TypeAdapter(FoldedPositions)


async def read_folded_positions(store: ReadModelStore) -> FoldedPositions:
    """Return the positions of the rows that readers use; raises `Unavailable`."""
    async with store.open_reader() as connection:
        sessions = await read_active_position(connection)
        segments = await read_segments_position(connection)
    return FoldedPositions(_report_position(sessions), _report_position(segments))


def _report_position(at: FoldedPosition | None) -> ReportedPosition | None:
    return ReportedPosition(at.log, at.position, at.hash) if at else None


class PositionSource(Protocol):
    """Where a process gets the positions of the read models."""

    async def read_positions(self, *, patient: bool) -> FoldedPositions | None:
        """Return the positions, or None if no process reports them; `patient` waits for a start."""
        ...


@dataclass(frozen=True, slots=True)
class RowPositions:
    """The positions as the database has them."""

    store: ReadModelStore

    async def read_positions(self, *, patient: bool) -> FoldedPositions | None:
        """See `PositionSource`; a database that cannot be read forbids nothing."""
        del patient
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                return await read_folded_positions(self.store)
        except (TimeoutError, Unavailable):
            return None


@dataclass(frozen=True, slots=True)
class PeerPositions:
    """The positions as a gateway or a projector on the same NATS reports them."""

    connection: NatsConnection
    patience: float = PEER_PATIENCE

    async def read_positions(self, *, patient: bool) -> FoldedPositions | None:
        """See `PositionSource`; where no role with rows runs, open turns are carried on."""
        clock = asyncio.get_running_loop()
        until, failures = clock.time() + (self.patience if patient else 0), 0
        asking = replace(self.connection, patience=ANSWER_SECONDS)
        while True:
            try:
                answer = await asking.send_request(POSITIONS_SUBJECT)
                return _POSITIONS_ADAPTER.validate_json(answer.data)
            except (Unavailable, ValidationError):
                if clock.time() >= until:
                    break
            failures += 1
            await wait_backoff(failures)
        if patient:
            _log.warning("log-comparison-skipped", detail="no gateway or projector answers")
        return None


@asynccontextmanager
async def answer_position_requests(
    connection: NatsConnection, store: ReadModelStore
) -> AsyncGenerator[None]:
    """Answer requests for the positions while the body runs."""
    source = RowPositions(store)

    async def answer() -> bytes | None:
        found = await source.read_positions(patient=False)
        return _POSITIONS_ADAPTER.dump_json(found) if found else None

    async with answer_requests(connection, POSITIONS_SUBJECT, answer):
        yield
