"""The metrics of a process, sent by OTLP and read by Prometheus at `/metrics`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import structlog
from opentelemetry.metrics import set_meter_provider

from turnlog.services.platform.asgi_server import serve_asgi
from turnlog.services.platform.concurrency import run_in_thread

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricReader

_log = structlog.get_logger("turnlog.process")

METRICS_PATH: Final = "/metrics"

_GRACE: Final = 1.0


@asynccontextmanager
async def export_metrics(
    service: str, endpoint: str | None, address: str | None
) -> AsyncGenerator[None]:
    """Export what the process measures while the body runs, to an endpoint and at an address.

    Refuses an address, naming `metrics`, on which the process cannot listen.
    """
    if endpoint is None and address is None:
        yield
        return
    # What most processes do without; see there.
    from turnlog.services.platform.telemetry.exporters import (  # noqa: PLC0415
        create_meter_provider,
        create_metric_exporter,
    )

    readers = [create_metric_exporter(endpoint)] if endpoint else []
    async with serve_metrics(address, readers):
        provider = create_meter_provider(service, readers)
        set_meter_provider(provider)
        try:
            yield
        finally:
            await run_in_thread(provider.shutdown)


@asynccontextmanager
async def serve_metrics(address: str | None, readers: list[MetricReader]) -> AsyncGenerator[None]:
    """Serve `/metrics` at an address while the body runs, and add its reader to the others."""
    if address is None:
        yield
        return
    from opentelemetry.exporter.prometheus import PrometheusMetricReader  # noqa: PLC0415
    from prometheus_client import CollectorRegistry  # noqa: PLC0415
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest  # noqa: PLC0415

    registry = CollectorRegistry()
    readers.append(PrometheusMetricReader(registry=registry, scope_info_enabled=False))

    async def app(scope: Mapping[str, Any], _receive: object, send: Callable[..., Any]) -> None:
        is_known = scope["path"] == METRICS_PATH
        body = await run_in_thread(lambda: generate_latest(registry)) if is_known else b""
        kind = CONTENT_TYPE_LATEST if is_known else "text/plain"
        await send(
            {
                "type": "http.response.start",
                "status": 200 if is_known else 404,
                "headers": [(b"content-type", kind.encode())],
            }
        )
        await send({"type": "http.response.body", "body": body})

    async with serve_asgi(
        app, address, field="metrics", grace=_GRACE, on_stopping=lambda: None
    ) as url:
        _log.info("metrics-listening", address=f"{url}{METRICS_PATH}")
        yield
