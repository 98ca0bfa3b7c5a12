"""Figures that are read from time to time have a value only while somebody knows it."""

from __future__ import annotations

from tests.support.processes.measured_figures import MeasuredFigures
from turnlog.services.platform.telemetry.reading_gauges import STALE_SECONDS, ReadingGauge

NAME = "test.depth"


def create_gauge(measured: MeasuredFigures, now: list[float], label: str | None) -> ReadingGauge:
    return ReadingGauge(
        NAME,
        label,
        unit="{turn}",
        description="",
        meter=measured.meter,
        monotonic=lambda: now[0],
    )


def test_figures_are_those_of_the_last_reading_for_as_long_as_it_is_young() -> None:
    measured, now = MeasuredFigures(), [100.0]
    gauge = create_gauge(measured, now, "state")
    assert measured.read_values(NAME, "state") == {}
    gauge.record_reading({"waiting": 3, "running": 2})
    gauge.record_reading({"waiting": 1})
    assert measured.read_values(NAME, "state") == {"waiting": 1}
    now[0] += STALE_SECONDS
    assert measured.read_values(NAME, "state") == {"waiting": 1}
    now[0] += 0.1
    assert measured.read_values(NAME, "state") == {}


def test_figure_without_a_label_is_one_series() -> None:
    measured = MeasuredFigures()
    create_gauge(measured, [0.0], None).record_reading({"": 7})
    ((labels, point),) = measured.list_points(NAME)
    assert (labels, point.value) == ({}, 7)
