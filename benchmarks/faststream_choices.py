"""What FastStream costs a worker, and what else of it could be used, each beside what is done.

`python -m benchmarks.faststream_choices` prints what importing it adds, the processor time of a
delivery through a slot and through a loop on nats-py alone, the spans and metrics that its
middleware makes of a turn that is delivered twice, and what is in its AsyncAPI document of the
worker.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from faststream import AckPolicy
from faststream.nats import JStream, NatsBroker, NatsMessage, PullSub
from faststream.nats.opentelemetry import NatsTelemetryMiddleware
from faststream.specification import AsyncAPI
from nats import errors
from nats.js.api import ConsumerConfig
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.jetstream.work_queue import WorkQueueOptions, ensure_work_queue
from turnlog.events.registry import EVENT_TYPES
from turnlog.events.subjects import CLAIMABLE_TURN_SUBJECTS, SESSIONS_STREAM, WORKERS_CONSUMER
from turnlog.services.platform.nats_server import NatsConfig, NatsServer
from turnlog.services.worker.turn_subscription import TurnBroker, build_broker

DELIVERIES: Final = 500

ROUNDS: Final = 5

TRACEPARENT: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclass
class TakenMessages:
    """Counts what a handler was given, and refuses the first deliveries."""

    expected: int
    refused: int = 0
    count: int = 0

    def __post_init__(self) -> None:
        self.whole = asyncio.Event()

    async def take_message(self, message: NatsMessage) -> None:
        """Settle a message as a worker does."""
        self.count += 1
        await (message.nack() if self.count <= self.refused else message.ack())
        if self.count == self.expected:
            self.whole.set()


async def main() -> None:
    """Print everything."""
    _print_import()
    with tempfile.TemporaryDirectory(prefix="turnlog-faststream-") as folder:
        async with (
            await NatsServer.start(NatsConfig(data_dir=Path(folder))) as server,
            open_client(server.url, StreamOptions()) as client,
        ):
            options = WorkQueueOptions(ack_wait=30, max_ack_pending=100)
            await ensure_work_queue(client.connection, options)
            await _print_deliveries(client)
            for headers in (None, {"traceparent": TRACEPARENT}):
                await _print_telemetry(client, headers)
    _print_document()


# What importing it adds to a process that has nats-py and pydantic anyway.

_IMPORT_PROGRAM: Final = """
import time
from pathlib import Path
import aiohttp, anyio, nats, opentelemetry.trace, pydantic, structlog
import turnlog.services.process_components
def read_pages():
    return int(Path("/proc/self/statm").read_text().split()[1])
before, began = read_pages(), time.process_time()
import faststream.nats
print((time.process_time() - began) * 1e3, (read_pages() - before) * 4096 / 2**20)
"""


def _print_import() -> None:
    found: list[tuple[float, ...]] = []
    for _ in range(ROUNDS):
        ran = subprocess.run(
            [sys.executable, "-c", _IMPORT_PROGRAM], check=True, capture_output=True
        )
        found.append(tuple(map(float, ran.stdout.split())))
    milliseconds, memory = (statistics.median(each) for each in zip(*found, strict=True))
    print(f"importing it: {milliseconds:.0f} ms of processor time, {memory:.1f} MB")


# A delivery: requested, received, settled.


async def _print_deliveries(client: JetStreamClient) -> None:
    ways = {
        "a loop on nats-py alone": _take_by_loop,
        "a slot": _take_by_slot,
        "a slot with FastStream's decoding and conversion": _take_by_converting_slot,
        "a slot with FastStream's telemetry, without an exporter": _take_by_measured_slot,
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, take in ways.items():
            await _publish(client, DELIVERIES)
            began = time.process_time()
            await take(client)
            found[name].append((time.process_time() - began) / DELIVERIES * 1e6)
    for name, taken in found.items():
        print(f"a delivery by {name}: {statistics.median(taken):.0f} us of processor time")


async def _publish(
    client: JetStreamClient, count: int, headers: dict[str, str] | None = None
) -> None:
    stream = client.connection.nc.jetstream()
    payload = json.dumps({"traceparent": TRACEPARENT, "text": "x" * 600}).encode()
    for number in range(count):
        subject = f"session.local.s{number}.turn.submitted"
        await stream.publish(subject, payload, headers=cast("dict[str, Any] | None", headers))


async def _take_by_loop(client: JetStreamClient) -> None:
    stream = client.connection.nc.jetstream()
    pulled = await stream.pull_subscribe_bind(WORKERS_CONSUMER, SESSIONS_STREAM)
    left = DELIVERIES
    while left:
        try:
            (message,) = await pulled.fetch(1, timeout=5)
        except errors.TimeoutError:
            continue
        await message.ack()
        left -= 1
    await pulled.unsubscribe()


async def _take_by_slot(client: JetStreamClient) -> None:
    await _take_messages(TurnBroker(client.connection, 1), TakenMessages(DELIVERIES))


async def _take_by_converting_slot(client: JetStreamClient) -> None:
    await _take_messages(ConvertingBroker(client.connection), TakenMessages(DELIVERIES))


async def _take_by_measured_slot(client: JetStreamClient) -> None:
    broker = TurnBroker(client.connection, 1)
    broker.add_middleware(NatsTelemetryMiddleware())
    await _take_messages(broker, TakenMessages(DELIVERIES))


class ConvertingBroker(TurnBroker):
    """The same broker with FastStream's own decoding of messages and conversion of arguments."""

    def __init__(self, connection: NatsConnection) -> None:
        NatsBroker.__init__(self, ack_policy=AckPolicy.MANUAL, graceful_timeout=1, logger=None)
        self._shared_client = connection.nc


async def _take_messages(broker: TurnBroker, taken: TakenMessages) -> None:
    """Take all messages by one slot, as `build_broker` makes it."""
    broker.subscriber(
        stream=JStream(SESSIONS_STREAM, declare=False),
        durable=WORKERS_CONSUMER,
        config=ConsumerConfig(filter_subjects=list(CLAIMABLE_TURN_SUBJECTS)),
        pull_sub=PullSub(batch_size=1, timeout=5),
        ack_policy=AckPolicy.MANUAL,
    )(taken.take_message)
    await broker.start()
    await taken.whole.wait()
    await broker.stop()


# Telemetry: one turn that is delivered twice.


async def _print_telemetry(client: JetStreamClient, headers: dict[str, str] | None) -> None:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracing, metering = TracerProvider(), MeterProvider([reader])
    tracing.add_span_processor(SimpleSpanProcessor(exporter))
    middleware = NatsTelemetryMiddleware(tracer_provider=tracing, meter_provider=metering)
    await _publish(client, 1, headers)
    broker = TurnBroker(client.connection, 1)
    broker.add_middleware(middleware)
    await _take_messages(broker, TakenMessages(2, refused=1))
    print(f"spans of a turn that is delivered twice, headers {headers}:")
    for span in exporter.get_finished_spans():
        context = span.get_span_context()
        assert context
        parent = f"{span.parent.span_id:016x}" if span.parent else "none"
        print(f"  {span.name}: trace {context.trace_id:032x}, parent {parent}")
        print(f"    {span.status.status_code.name} {dict(span.attributes or {})}")
    for name, attributes in _list_series(reader):
        print(f"  metric {name} {attributes}")


def _list_series(reader: InMemoryMetricReader) -> Sequence[tuple[str, dict[str, Any]]]:
    data = reader.get_metrics_data()
    return [
        (metric.name, dict(point.attributes or {}))
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    ]


# AsyncAPI.


def _print_document() -> None:
    no_client = cast("Any", SimpleNamespace(nc=None))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        document = AsyncAPI(build_broker(no_client, 32, 1.0, cast("Any", None)), title="worker")
        published = json.loads(document.to_specification().to_json())
    print(
        f"AsyncAPI: {len(published['channels'])} channels, {len(warned)} warnings, payloads"
        f" {[*published['components']['schemas'].values()]}; the event registry has"
        f" {len(EVENT_TYPES)} types"
    )


if __name__ == "__main__":
    asyncio.run(main())
