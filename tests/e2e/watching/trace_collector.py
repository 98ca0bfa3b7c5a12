"""A collector that receives OTLP over HTTP and keeps spans and metrics."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedSpan:
    """A span as received, ids in hexadecimal."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    links: tuple[str, ...]
    """Traces it links to."""
    attributes: Mapping[str, str]
    is_error: bool
    everything: str
    """The whole span as text, to search for what must not be in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedMetric:
    """A metric as received, once for each export."""

    service: str
    instance: str
    name: str
    everything: str
    """All its series as text."""


@dataclass(frozen=True, slots=True)
class TraceCollector:
    url: str
    spans: list[CollectedSpan]
    metrics: list[CollectedMetric]

    def find_spans(self, service: str, name: str) -> list[CollectedSpan]:
        """Find a service's spans of one name."""
        key = (f"turnlog-{service}", name)
        return [span for span in self.spans if (span.service, span.name) == key]


@contextmanager
def run_collector() -> Generator[TraceCollector]:
    """Collect spans and metrics while the body runs."""
    spans: list[CollectedSpan] = []
    metrics: list[CollectedMetric] = []

    class Take(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["content-length"]))
            if self.path == "/v1/traces":
                spans.extend(_parse_spans(sent))
            if self.path == "/v1/metrics":
                metrics.extend(_parse_metrics(sent))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Take) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield TraceCollector(f"http://127.0.0.1:{server.server_port}", spans, metrics)
        finally:
            server.shutdown()
            serving.join()


def _parse_spans(sent: bytes) -> list[CollectedSpan]:
    request = ExportTraceServiceRequest.FromString(sent)
    return [
        CollectedSpan(
            service=_read_attributes(resource.resource.attributes)["service.name"],
            name=span.name,
            trace=span.trace_id.hex(),
            id=span.span_id.hex(),
            parent=span.parent_span_id.hex(),
            links=tuple(link.trace_id.hex() for link in span.links),
            attributes=_read_attributes(span.attributes),
            is_error=span.status.code == Status.STATUS_CODE_ERROR,
            everything=str(span),
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _parse_metrics(sent: bytes) -> Iterable[CollectedMetric]:
    for resource in ExportMetricsServiceRequest.FromString(sent).resource_metrics:
        process = _read_attributes(resource.resource.attributes)
        for metric in (each for scope in resource.scope_metrics for each in scope.metrics):
            yield CollectedMetric(
                service=process["service.name"],
                instance=process["service.instance.id"],
                name=metric.name,
                everything=str(metric),
            )


def _read_attributes(attributes: Iterable[KeyValue]) -> dict[str, str]:
    return {
        each.key: str(getattr(each.value, each.value.WhichOneof("value") or "string_value"))
        for each in attributes
    }
