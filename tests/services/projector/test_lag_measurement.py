"""The lag of the rows is measured beside the projector, and is missing where nobody can read it."""

from __future__ import annotations

import pytest

from tests.projections.store.row_fold import fold_log
from tests.projections.store.session_histories import StoredSession, build_opened, build_submitted
from tests.support.processes.measured_figures import MeasuredFigures
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.services.platform.telemetry.reading_gauges import ReadingGauge
from turnlog.services.projector.lag_measurement import LAG_METRIC, LagMeasurement

pytestmark = pytest.mark.asyncio


async def test_lag_is_the_number_of_unfolded_events_of_each_projection(
    store: ReadModelStore,
) -> None:
    await prepare_schema(store)
    log, library, measured = MemoryLog(), MemoryLog(), MeasuredFigures()
    label = "turnlog.projection"
    gauge = ReadingGauge(LAG_METRIC, label, unit="{event}", description="", meter=measured.meter)
    lag = LagMeasurement(log=log, library=library, store=store, tenant="t", gauge=gauge)
    story = StoredSession(log=log)
    await story.append_events(build_opened(), build_submitted(1, "one"))
    await lag.measure_once()
    found = measured.read_values(LAG_METRIC, label)
    assert found == {"sessions": 2, "segments": 0, "knowledge": 0}
    await fold_log(store, log)
    await lag.measure_once()
    assert measured.read_values(LAG_METRIC, label)["sessions"] == 0
    await story.append_events(build_submitted(2, "two"))
    await StoredSession(log=library).append_events(build_opened())
    await lag.measure_once()
    found = measured.read_values(LAG_METRIC, label)
    assert found == {"sessions": 1, "segments": 1, "knowledge": 1}
