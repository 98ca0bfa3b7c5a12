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

from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.nats.backoff import back_off
from turnlog.projections.store import checkpoints
from turnlog.projections.store.checkpoints import VERSION, Checkpoint
from turnlog.projections.store.reach import Bell
from turnlog.projections.store.schema import prepare
from turnlog.services.projector.folding import BULK, Folding
from turnlog.services.projector.rebuild import rebuild

PAUSE: Final = 0.05
"""Seconds between transactions while following live events, because a turn's events come singly."""

_log = structlog.get_logger("turnlog.projector")


@dataclass(frozen=True, slots=True)
class Projector:
    """Keeps the read models of one stream up to date."""

    folding: Folding
    bell: Bell
    """Notified after every commit, for readers in this process."""

    async def run(self) -> None:
        """Keep the rows up to date; ends by cancellation, or with `Corrupt`."""
        failures = 0
        while True:
            try:
                async with aclosing(self._round()) as steps:
                    before = 0
                    async for at in steps:
                        failures = 0
                        self.bell.ring()
                        await asyncio.sleep(PAUSE if at.position - before < BULK else 0)
                        before = at.position
            except Unavailable as error:
                failures += 1
                _log.warning("projector-waits", what=error.what, detail=error.detail)
            except Corrupt as error:
                _log.error("projector-stopped", where=error.where, detail=error.detail)
                raise
            await back_off(failures)

    async def _round(self) -> AsyncGenerator[Checkpoint]:
        """Fold until another process moves the position."""
        at = await self._started()
        if at.version < VERSION:
            # Readers use the rows of the earlier release until those of this one are complete.
            await rebuild(self.folding, _rebuilding, anew=False)
            return
        async with aclosing(self.folding.along(at, live=True)) as steps:
            async for step in steps:
                if step is not None:
                    yield step

    async def _started(self) -> Checkpoint:
        folding = self.folding
        await prepare(folding.store)
        log = await folding.log.identity(folding.tenant)
        async with folding.store.writing() as connection:
            live = await checkpoints.active(connection)
            at = live or await checkpoints.begin(connection, log, seen=True)
        if at.version > VERSION:
            detail = (
                f"rows of version {at.version}, this release knows {VERSION}: run the later one"
            )
            raise Corrupt("read models", detail)
        return at


def _rebuilding(position: int, goal: int) -> None:
    _log.info("read-models-rebuilding", position=position, goal=goal)
