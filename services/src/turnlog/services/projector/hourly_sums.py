"""Keeps the sums over the calls of each hour, one hour at a time beside the fold.

The sums are only a shorter way to an answer: until those of an hour are there, whoever asks reads
the rows of its calls. So nothing waits for them, and any process may compute them at any time.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.growth.hour_sums import has_changed_hour, sum_changed_hour
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.services.projector.projector_outages import OutageLog, run_rounds

IDLE_SECONDS: Final = 1.0
"""Seconds between two looks for an hour that changed."""

PAUSE_SECONDS: Final = 0.25
"""Seconds between two hours, because the fold waits while one is summed."""


@dataclass(frozen=True, slots=True)
class HourlySums:
    """Computes the sums of every hour that changed."""

    store: ReadModelStore

    async def run(self) -> None:
        """Keep the sums up to date; ends by cancellation."""
        await run_rounds(self._run_round)

    async def _run_round(self, outage: OutageLog) -> None:
        await prepare_schema(self.store)
        while True:
            is_summed = await self._sum_hour()
            outage.record_success()
            await asyncio.sleep(PAUSE_SECONDS if is_summed else IDLE_SECONDS)

    async def _sum_hour(self) -> bool:
        async with self.store.open_reader() as connection:
            if not await has_changed_hour(connection):
                return False
        async with self.store.open_writer() as connection:
            return await sum_changed_hour(connection)
