"""Whether the log is behind what the read models were folded from, checked before each append.

The read models outlive every process, so their positions show that a log was restored from an older
copy, or exchanged, even to a process that has just started. While they do, no gateway accepts a
write and no worker runs a turn, because they would continue another history. They go on, within
seconds and without a restart, when the later log is restored or the read models are rebuilt from
this one.

A log can only go back when its server is restarted, so an append waits for a check on each new
connection. Checks in the background find what else may change: the database became reachable, or
the read models were rebuilt. Without known positions nothing is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import structlog

from turnlog.events.async_tasks import run_tasks
from turnlog.events.codec import EventBatch
from turnlog.events.errors import LogRolledBack, Unavailable
from turnlog.events.jetstream.jetstream_client import JetStreamLog
from turnlog.services.integrity.folded_positions import FoldedPositions, PositionSource
from turnlog.services.integrity.rollback_confirmation import CONFIRM_SECONDS
from turnlog.services.integrity.row_rollback_check import verify_log

CHECK_INTERVAL: Final = 5.0
"""Seconds between two checks in the background."""

FIND_TIMEOUT: Final = 2 * CONFIRM_SECONDS
"""Seconds that a comparison may take; a log whose end moves does not show it sooner."""

_log = structlog.get_logger("turnlog.integrity")


@dataclass(eq=False, kw_only=True)
class LogGuard:
    """Compares the log with the positions of the read models, and refuses appends if it differs."""

    log: JetStreamLog
    library: JetStreamLog
    positions: PositionSource
    tenant: str
    _fault: LogRolledBack | None = None
    _checked_connection: int = -1
    """The reconnect count for which the last check was completed."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def require_current_log(self) -> None:
        """Raise `LogRolledBack` if the log is behind; `Unavailable` while that is not known.

        It guards the appends to both logs, and is part of `/readyz`.
        """
        connection = self.log.connection
        while self._checked_connection != connection.reconnect_count:
            async with self._lock:
                if self._checked_connection != connection.reconnect_count:
                    await self._check_log()
        if self._fault is not None:
            raise self._fault

    async def check_append(self, batch: EventBatch) -> None:
        """Raise what `require_current_log` raises; it forbids all appends or none."""
        del batch
        await self.require_current_log()

    async def _check_log(self) -> None:
        count = self.log.connection.reconnect_count
        positions = await self.positions.read_positions(patient=count != self._checked_connection)
        fault = await self._find_fault(positions) if positions else None
        if fault is not None and self._fault is None:
            _log.error("log-rolled-back", detail=fault.detail)
        if fault is None and self._fault is not None:
            _log.info("log-recovered", detail=self._fault.detail)
        self._fault, self._checked_connection = fault, count

    async def _find_fault(self, positions: FoldedPositions) -> LogRolledBack | None:
        known = ((self.log, positions.sessions), (self.library, positions.segments))
        seconds = 0.0 if self._fault else CONFIRM_SECONDS
        try:
            async with asyncio.timeout(FIND_TIMEOUT):
                for log, position in known:
                    if position is not None:
                        await verify_log(log, self.tenant, position, seconds=seconds)
        except LogRolledBack as found:
            return found
        except TimeoutError:
            raise Unavailable("log", "it does not show its end") from None
        return None

    @asynccontextmanager
    async def run_checks(self) -> AsyncGenerator[None]:
        """Check at intervals while the body runs."""
        async with run_tasks(self._check_at_intervals()):
            yield

    async def _check_at_intervals(self) -> None:
        while True:
            try:
                async with self._lock:
                    await self._check_log()
            except Unavailable as error:
                _log.warning("log-check-failed", detail=error.detail)
            await asyncio.sleep(CHECK_INTERVAL)
