"""The session projector: folds the log from the stored position onwards, forever.

After any failure of this process, NATS or the database, the next round begins at the position in
SQL. The projector waits without limit for components that are unreachable, stops a single session
for an event that cannot be folded, and ends only if the log does not match its rows. It may be
cancelled at any point.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import structlog

from turnlog.events.errors import Corrupt
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.projections.store.write import projection_positions
from turnlog.projections.store.write.projection_positions import (
    SESSIONS_VERSION,
    ProjectionPosition,
)
from turnlog.services.projector.log_fold import LIVE_BATCH_EVENTS, LogFolder, rebuild_rows
from turnlog.services.projector.projector_outages import OutageLog, run_rounds

PAUSE_SECONDS: Final = 0.05
"""Seconds between transactions while following live events, because a turn's events come singly."""

_log = structlog.get_logger("turnlog.projector")


@dataclass(frozen=True, slots=True)
class SessionProjector:
    """Keeps the read models of one stream up to date."""

    folder: LogFolder
    signal: ProjectionSignal
    """Notified after every commit, for readers in this process."""

    async def run(self) -> None:
        """Keep the rows up to date; ends by cancellation, or with `Corrupt`."""
        is_checked = False

        async def run_round(outage: OutageLog) -> None:
            nonlocal is_checked
            if not is_checked:
                await self.folder.store.check_integrity()
                is_checked = True
            await self._follow_log(outage)

        await run_rounds(run_round)

    async def _follow_log(self, outage: OutageLog) -> None:
        async with aclosing(self._run_round()) as steps:
            before = 0
            async for at in steps:
                outage.record_success()
                self.signal.notify_readers()
                is_alone = at.position - before < LIVE_BATCH_EVENTS
                await asyncio.sleep(PAUSE_SECONDS if is_alone else 0)
                before = at.position

    async def _run_round(self) -> AsyncGenerator[ProjectionPosition]:
        """Fold until another process moves the position."""
        at = await self._prepare_position()
        if at.version < SESSIONS_VERSION:
            # Nothing but the old position shows that the log once reached further.
            await self.folder.verify_position(at)
            # Readers use the rows of the earlier release until those of this one are complete.
            await rebuild_rows(self.folder, _log_rebuild_progress, from_start=False)
            return
        async with aclosing(self.folder.fold_from(at, live=True)) as steps:
            async for step in steps:
                if step is not None:
                    yield step

    async def _prepare_position(self) -> ProjectionPosition:
        folding = self.folder
        await prepare_schema(folding.store)
        log = await folding.log.get_identity(folding.tenant)
        async with folding.store.open_writer() as connection:
            live = await projection_positions.read_active_position(connection)
            at = live or await projection_positions.begin_build(connection, log, is_active=True)
        if at.version > SESSIONS_VERSION:
            versions = f"rows of version {at.version}, this release knows {SESSIONS_VERSION}"
            detail = f"{versions}: run the later one"
            raise Corrupt("read models", detail)
        return at


def _log_rebuild_progress(position: int, goal: int) -> None:
    _log.info("read-models-rebuilding", position=position, goal=goal)
