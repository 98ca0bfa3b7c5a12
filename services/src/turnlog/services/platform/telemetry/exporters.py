"""What exports traces and metrics to an endpoint, and the SDK that collects them.

Only a process with an endpoint imports this module: its libraries take half a second and 7 MB.
"""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def create_tracer_provider(service: str, endpoint: str) -> TracerProvider:
    """Create what collects the spans of a process and exports them."""
    provider = TracerProvider(resource=_build_resource(service))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{endpoint}/v1/traces")))
    return provider


def create_metric_reader(endpoint: str) -> MetricReader:
    """Create what exports metrics from time to time."""
    return PeriodicExportingMetricReader(OTLPMetricExporter(f"{endpoint}/v1/metrics"))


def create_meter_provider(
    service: str, reader: MetricReader, histogram: str, bounds: Sequence[float]
) -> MeterProvider:
    """Create what collects the metrics of a process for a reader, one histogram with `bounds`."""
    aggregation = ExplicitBucketHistogramAggregation(bounds)
    return MeterProvider(
        [reader],
        _build_resource(service),
        views=[View(instrument_name=histogram, aggregation=aggregation)],
    )


def _build_resource(service: str) -> Resource:
    return Resource.create({"service.name": f"turnlog-{service}"})
