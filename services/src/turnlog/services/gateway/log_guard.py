"""Whether the log is behind what the read models were folded from, checked before each append.

The read models outlive every process, so their positions show that a log was restored from an older
copy, or exchanged, even to a gateway that has just started. While they do, the gateway accepts no
write, because it would continue another history. It accepts writes again, within seconds and
without a restart, when the later log is restored or the read models are rebuilt from this one.

A log can only go back when its server is restarted, so an append waits for a check on each new
connection. Checks in the background find what else may change: the database became reachable, or
the read models were rebuilt. Read models that cannot be read forbid nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import structlog

from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.errors import LogRolledBack, Unavailable
from turnlog.events.jetstream.jetstream_client import JetStreamLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.write.projection_positions import read_active_position
from turnlog.projections.store.write.segment_projection import read_segments_position
from turnlog.services.platform.process_health import CHECK_TIMEOUT
from turnlog.services.platform.rollback_check import FoldedPosition, verify_log

CHECK_INTERVAL: Final = 5.0
"""Seconds between two checks in the background."""

SHORT_LOG_PATIENCE: Final = 5.0
"""Seconds after which a log that seems too short counts as rolled back."""

_log = structlog.get_logger("turnlog.gateway")


@dataclass(eq=False)
class LogGuard:
    """Compares the log with the positions of the read models, and refuses appends if it differs."""

    log: JetStreamLog
    library: JetStreamLog
    store: ReadModelStore
    tenant: str
    _fault: LogRolledBack | None = None
    _checked_connection: int = -1
    """The reconnect count for which the last check was completed."""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def require_current_log(self) -> None:
        """Raise `LogRolledBack` if the log is behind; `Unavailable` while that is not known.

        It is the append guard of both logs, and part of `/readyz`.
        """
        connection = self.log.connection
        while self._checked_connection != connection.reconnect_count:
            async with self._lock:
                if self._checked_connection != connection.reconnect_count:
                    await self._check_log()
        if self._fault is not None:
            raise self._fault

    async def _check_log(self) -> None:
        count = self.log.connection.reconnect_count
        patience = 0.0 if self._fault else SHORT_LOG_PATIENCE
        fault: LogRolledBack | None = None
        try:
            async with asyncio.timeout(SHORT_LOG_PATIENCE + CHECK_TIMEOUT):
                for log, position in await self._read_positions():
                    await verify_log(log, self.tenant, position, patience=patience)
        except LogRolledBack as found:
            fault = found
        except TimeoutError:
            raise Unavailable("log", "it does not show its end") from None
        if fault is not None and self._fault is None:
            _log.error("log-rolled-back", detail=fault.detail)
        self._fault, self._checked_connection = fault, count

    async def _read_positions(self) -> list[tuple[JetStreamLog, FoldedPosition]]:
        """Return the positions with their logs; none if the database cannot be read."""
        try:
            async with asyncio.timeout(CHECK_TIMEOUT), self.store.open_reader() as connection:
                sessions = await read_active_position(connection)
                segments = await read_segments_position(connection)
        except (TimeoutError, Unavailable):
            return []
        known = ((self.log, sessions), (self.library, segments))
        return [(log, position) for log, position in known if position is not None]

    @asynccontextmanager
    async def run_checks(self) -> AsyncGenerator[None]:
        """Check at intervals while the body runs."""
        task = asyncio.create_task(self._check_at_intervals())
        try:
            yield
        finally:
            await cancel_tasks(task)

    async def _check_at_intervals(self) -> None:
        while True:
            try:
                async with self._lock:
                    await self._check_log()
            except Unavailable as error:
                _log.warning("log-not-checked", detail=error.detail)
            await asyncio.sleep(CHECK_INTERVAL)
