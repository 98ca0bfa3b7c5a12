"""An append of one event, compared with a bare publish of the same bytes and expectation."""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from benchmarks.figure_types import BenchmarkTerms, Figure, require_at_most
from turnlog.events.codec import EventBatch, encode_batch
from turnlog.events.envelope import ChainHead
from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.stream_setup import StreamOptions as Layout
from turnlog.events.model.turn_events import TurnExcluded
from turnlog.events.store.ports import BatchAppended
from turnlog.events.subjects import SESSION_HISTORY
from turnlog.events.testing import make_draft
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

TENANT: Final = "bench"
APPEND_COUNT: Final = 500


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Measure the two alternately, so that both see the same disk."""
    own_times: list[float] = []
    bare: list[float] = []
    async with _run_jetstream(terms.folder) as on:
        for run in range(terms.runs):
            taken = await _measure_medians(on, run)
            own_times.append(taken[0])
            bare.append(taken[1])
    ratios = tuple(
        own_time / bare_time for own_time, bare_time in zip(own_times, bare, strict=True)
    )
    return (
        Figure(
            name="append over bare publish",
            measured=f"p50 of {APPEND_COUNT} awaited appends by compare-and-set, over that of"
            " bare nats-py "
            "publishes of the same bytes with the same expectation, taken in turn",
            unit="x",
            runs=ratios,
            target=require_at_most(1.5),
        ),
        Figure(
            name="append",
            measured="p50 of one awaited append of one event",
            unit="ms",
            runs=tuple(own_times),
        ),
        Figure(
            name="bare publish",
            measured="p50 of one awaited publish of nats-py",
            unit="ms",
            runs=tuple(bare),
        ),
    )


@asynccontextmanager
async def _run_jetstream(folder: Path) -> AsyncGenerator[JetStreamClient]:
    async with (
        await NatsServer.start(NatsConfig(data_dir=folder)) as server,
        open_client(server.url, Layout(replicas=1)) as on,
    ):
        yield on


async def _measure_medians(on: JetStreamClient, run: int) -> tuple[float, float]:
    """Give the medians of one run, in milliseconds: ours and theirs."""
    own_times: list[float] = []
    bare: list[float] = []
    head: ChainHead | None = None
    last = 0
    for n in range(APPEND_COUNT):
        batch = encode_batch(TENANT, f"ours{run}", head, [make_draft(TurnExcluded(turn=1), n + 1)])
        began = time.perf_counter()
        outcome = await on.log.append_batch(batch)
        own_times.append(time.perf_counter() - began)
        assert isinstance(outcome, BatchAppended)
        head = outcome.events[-1].head
        began = time.perf_counter()
        last = await _publish_bare(on, f"bare{run}", batch, last)
        bare.append(time.perf_counter() - began)
    return statistics.median(own_times) * 1000, statistics.median(bare) * 1000


async def _publish_bare(on: JetStreamClient, session: str, batch: EventBatch, last: int) -> int:
    expected = {
        "Nats-Expected-Last-Subject-Sequence": str(last),
        "Nats-Expected-Last-Subject-Sequence-Subject": SESSION_HISTORY.build_filter(
            TENANT, session
        ),
    }
    subject = SESSION_HISTORY.build_subject(TENANT, session, "turn")
    js = on.connection.nc.jetstream()
    ack = await js.publish(subject, batch.messages[0].payload, headers=expected)
    return ack.seq
