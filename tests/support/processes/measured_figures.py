"""Metrics of a test, in memory: what was measured, by the labels of each series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader


@dataclass(frozen=True, slots=True)
class MeasuredFigures:
    """A meter, and what was measured with it."""

    reader: InMemoryMetricReader = field(default_factory=InMemoryMetricReader)
    meter: Meter = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "meter", MeterProvider([self.reader]).get_meter("test"))

    def list_points(self, name: str) -> list[tuple[Mapping[str, Any], Any]]:
        """Return labels and figures of every series of a metric."""
        data = self.reader.get_metrics_data()
        metrics = data.resource_metrics[0].scope_metrics[0].metrics if data else ()
        return [
            (dict(point.attributes or {}), point)
            for metric in metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def read_values(self, name: str, label: str | None = None) -> dict[str, float]:
        """Return the value of each series of a metric, by one of its labels."""
        points = self.list_points(name)
        return {str(labels[label]) if label else "": point.value for labels, point in points}
