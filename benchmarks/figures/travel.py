"""Time travel in a session of ten thousand turns: any prompt, in both ways, and any state.

Every call can be reproduced. The requested ones are drawn at random, one from each section of the
session. Every run uses a gateway that was just started: it has answered one request for a prompt of
another age and has nothing else of the session in memory. The files are in the caches of
nats-server and the system, since they were written a minute before. Requesting the same calls again
measures a gateway that has read them recently.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from benchmarks.figure_types import BenchmarkTerms, Figure, require_at_most
from benchmarks.support.decided_session import SNAPSHOT_KEY, TENANT, run_session
from benchmarks.support.http_caller import (
    HttpCaller,
    connect_caller,
    wait_for_gateway,
    wait_for_read_models,
)
from tests.support.processes.process_host import (
    ProcessHost,
    find_free_port,
    run_process_host,
    stop_process,
)
from turnlog.events.jetstream.jetstream_client import open_client
from turnlog.events.jetstream.stream_setup import StreamOptions as Layout
from turnlog.events.store.ports import EventLog
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

SESSION: Final = "old"
TURNS: Final = 10_000
DRAWN_COUNT: Final = 40
"""Calls, and as many sequences, each from a section of its own."""
EXPLAINED_COUNT: Final = 12
"""Calls whose reasons and differences are requested."""
CHARACTERS: Final = 350
"""Of a text and of a reply: a prompt of 8,000 tokens contains some 45 turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TravelTimes:
    """Milliseconds of each answer in one run."""

    prompts: Sequence[float]
    again: Sequence[float]
    states: Sequence[float]
    reasons: Sequence[float]
    differences: Sequence[float]


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Build the session, and query a new gateway in each run."""
    async with run_old_session(terms) as (on, end, began):
        runs = [await _measure_answers(on, end, seed) for seed in range(terms.runs)]
    what = f"over HTTP, {DRAWN_COUNT} of {TURNS:,} drawn at random, cold"
    return (
        Figure(
            name="any prompt of 10,000 turns",
            measured=f"p50 of the prompts of calls {what}, each read back by reference and"
            " assembled again, "
            "both compared with the record; windows of 8,000 tokens",
            unit="ms",
            runs=tuple(statistics.median(run.prompts) for run in runs),
            target=require_at_most(50),
        ),
        Figure(
            name="any prompt of 10,000 turns, slowest",
            measured="the slowest of the same",
            unit="ms",
            runs=tuple(max(run.prompts) for run in runs),
            target=require_at_most(50),
        ),
        Figure(
            name="any prompt of 10,000 turns, warm",
            measured="p50 of the same asked for again at once",
            unit="ms",
            runs=tuple(statistics.median(run.again) for run in runs),
        ),
        Figure(
            name="any state of 10,000 turns",
            measured=f"p50 of the session as it was at sequences {what}",
            unit="ms",
            runs=tuple(statistics.median(run.states) for run in runs),
        ),
        Figure(
            name="why of any call",
            measured=f"p50 of why each of {EXPLAINED_COUNT} of those calls was answered so",
            unit="ms",
            runs=tuple(statistics.median(run.reasons) for run in runs),
            target=require_at_most(50),
        ),
        Figure(
            name="diff of any call",
            measured=f"p50 of what differs between each of {EXPLAINED_COUNT} of those calls and "
            "the next one",
            unit="ms",
            runs=tuple(statistics.median(run.differences) for run in runs),
            target=require_at_most(50),
        ),
        Figure(
            name="a session of 10,000 turns made",
            measured="decided, assembled, encoded and stored, some hundred turns an append",
            unit="s",
            runs=(began,),
        ),
    )


@asynccontextmanager
async def run_old_session(terms: BenchmarkTerms) -> AsyncGenerator[tuple[ProcessHost, int, float]]:
    """Run a host for gateways; yields it, the last sequence, and the seconds the session took."""
    folder = terms.folder
    async with await NatsServer.start(NatsConfig(data_dir=folder / "nats", monitor=True)) as server:
        variables = {
            "TURNLOG_NATS_URL": server.url,
            "TURNLOG_NATS_MONITOR": server.monitor_url or "",
            "TURNLOG_DATABASE_URL": f"sqlite+aiosqlite:///{folder / 'rows.db'}",
            "TURNLOG_DATA_DIR": str(folder / "data"),
            "TURNLOG_SNAPSHOT_KEY": SNAPSHOT_KEY,
        }
        async with (
            run_process_host(folder, variables) as on,
            open_client(server.url, Layout(replicas=1)) as log,
        ):
            began = time.perf_counter()
            last = await run_session(log, SESSION, TURNS, CHARACTERS)
            took = time.perf_counter() - began
            await _run_projector(on, log.log)
            yield on, last.head.sequence, took


async def _run_projector(on: ProcessHost, log: EventLog) -> None:
    """Have the read models come as far as the session has."""
    async with run_gateway(on) as caller:
        projector = await on.start_process(
            "run", "projector", output_file=on.folder / "projector.log"
        )
        await wait_for_read_models(caller, log, TENANT, SESSION)
        await stop_process(projector)


@asynccontextmanager
async def run_gateway(on: ProcessHost) -> AsyncGenerator[HttpCaller]:
    """Run a gateway while the body runs."""
    address = f"127.0.0.1:{find_free_port()}"
    variables = {"TURNLOG_HTTP": address}
    process = await on.start_process(
        "run", "gateway", output_file=on.folder / "gateway.log", variables=variables
    )
    await wait_for_gateway(f"http://{address}")
    async with connect_caller(f"http://{address}") as caller:
        yield caller
    await stop_process(process)


async def _measure_answers(on: ProcessHost, end: int, seed: int) -> TravelTimes:
    """Draw numbers, and query a gateway that was just started."""
    turns, sequences = _draw_numbers(TURNS - 1, seed), _draw_numbers(end, seed)
    session_path = f"/v1/sessions/{SESSION}"
    async with run_gateway(on) as caller:
        await _measure_requests(caller, [f"{session_path}/calls/{TURNS}.1/prompt"])
        prompts = [f"{session_path}/calls/{turn}.1/prompt" for turn in turns]
        return TravelTimes(
            prompts=await _measure_requests(caller, prompts),
            again=await _measure_requests(caller, prompts),
            states=await _measure_requests(caller, [f"{session_path}?at={at}" for at in sequences]),
            reasons=await _measure_requests(
                caller, [f"{session_path}/calls/{turn}.1/why" for turn in turns[:EXPLAINED_COUNT]]
            ),
            differences=await _measure_requests(
                caller,
                [f"{session_path}/calls/{n}.1/diff/{n + 1}.1" for n in turns[:EXPLAINED_COUNT]],
            ),
        )


def _draw_numbers(most: int, seed: int) -> Sequence[int]:
    """Draw one number from each section up to `most`, in random order."""
    drawing = random.Random(seed)  # noqa: S311 - any will do, the same each time
    width = most // DRAWN_COUNT
    drawn = [section * width + drawing.randint(1, width) for section in range(DRAWN_COUNT)]
    return drawing.sample(drawn, DRAWN_COUNT)


async def _measure_requests(caller: HttpCaller, paths: Iterable[str]) -> list[float]:
    """Return how long each request takes in milliseconds."""
    took: list[float] = []
    for path in paths:
        began = time.perf_counter()
        answer = await caller.request_json("GET", path)
        took.append((time.perf_counter() - began) * 1000)
        assert answer.get("verified", True), answer
    return took
