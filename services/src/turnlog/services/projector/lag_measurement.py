"""How far the read models are behind their logs, as a metric of each projector."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import structlog

from turnlog.events.async_tasks import run_tasks
from turnlog.events.errors import TurnlogError
from turnlog.events.store.ports import EventLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.knowledge.knowledge_builds import read_knowledge_position
from turnlog.projections.store.write.projection_positions import read_active_position
from turnlog.projections.store.write.segment_projection import read_segments_position
from turnlog.services.platform.process_settings import ProjectorSettings
from turnlog.services.platform.telemetry.reading_gauges import ReadingGauge
from turnlog.services.process_components import ProcessComponents

LAG_METRIC: Final = "turnlog.projector.lag"

_INTERVAL: Final = 5.0
"""Seconds between two readings."""

_log = structlog.get_logger("turnlog.projector")


def _create_gauge() -> ReadingGauge:
    return ReadingGauge(
        LAG_METRIC,
        "turnlog.projection",
        unit="{event}",
        description="Events of the log that are not folded into the read models yet",
    )


@dataclass(frozen=True, kw_only=True)
class LagMeasurement:
    """Reads the lag of the rows of sessions, of segments and of the knowledge index."""

    log: EventLog
    library: EventLog
    store: ReadModelStore
    tenant: str
    """Any tenant of the streams."""
    gauge: ReadingGauge = field(default_factory=_create_gauge)

    async def run(self) -> None:
        """Measure until cancelled; what cannot be read has no figure."""
        while True:
            try:
                await self.measure_once()
            except TurnlogError as error:
                _log.debug("projection-lag-unread", detail=str(error))
            await asyncio.sleep(_INTERVAL)

    async def measure_once(self) -> None:
        """Read the positions, then the ends of the logs, so that no lag is negative."""
        async with self.store.open_reader() as connection:
            sessions = await read_active_position(connection)
            segments = await read_segments_position(connection)
            knowledge = await read_knowledge_position(connection)
        end = await self.log.get_last_stream_sequence(self.tenant)
        library_end = await self.library.get_last_stream_sequence(self.tenant)
        self.gauge.record_reading(
            {
                "sessions": end - (sessions.position if sessions else 0),
                "segments": library_end - (segments.position if segments else 0),
                "knowledge": library_end - (knowledge.position if knowledge else 0),
            }
        )


@asynccontextmanager
async def run_lag_measurement(
    settings: ProjectorSettings, parts: ProcessComponents, store: ReadModelStore
) -> AsyncGenerator[None]:
    """Measure while the body runs, if the process exports metrics."""
    if settings.metrics is None and settings.otlp_endpoint is None:
        yield
        return
    lag = LagMeasurement(log=parts.log, library=parts.library, store=store, tenant=settings.tenant)
    async with run_tasks(lag.run()):
        yield
