"""The time a token takes from the model to a client that watches the turn over HTTP."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from typing import Final

from benchmarks.figure_types import BenchmarkTerms, Figure, require_at_most
from benchmarks.support.benchmark_service import run_service
from benchmarks.support.clock_model_server import ModelSpeech, run_server_process
from benchmarks.support.http_caller import HttpCaller, connect_caller

SPEECH: Final = ModelSpeech(tokens=200, pace=0.02)


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Watch a model that sends its clock fifty times a second, once in each run."""
    async with run_server_process(SPEECH) as model:
        variables = {"TURNLOG_MODEL": "openai/bench", "OPENAI_API_BASE": model}
        async with (
            run_service(terms.folder, 10, variables) as running,
            connect_caller(running.http) as caller,
        ):
            opened = await caller.request_json("POST", "/v1/sessions", {"blueprint": "assistant"})
            delays = [
                await _measure_turn_delays(caller, str(opened["session"]))
                for _ in range(terms.runs + 1)
            ]
    runs = delays[1:]  # litellm is still loading during the first turn.
    middle = tuple(statistics.median(run) for run in runs)
    late = tuple(statistics.quantiles(run, n=100)[98] for run in runs)
    way = "from a model's server, that sends it as a clock reading, to an SSE client of the gateway"
    return (
        Figure(
            name="token to SSE client",
            measured=f"p50 {way}; `turnlog up`",
            unit="ms",
            runs=middle,
            target=require_at_most(2),
        ),
        Figure(name="token to SSE client, p99", measured=f"p99 {way}", unit="ms", runs=late),
    )


async def _measure_turn_delays(caller: HttpCaller, session: str) -> list[float]:
    """Run one turn and return the delay of each of its tokens in milliseconds."""
    late: list[float] = []
    async for line in caller.stream_turn(session, "What time is it?"):
        now = time.monotonic_ns()
        if line.startswith(b'data: {"text":'):
            text = str(json.loads(line.removeprefix(b"data: "))["text"])
            late += [(now - int(clock)) / 1e6 for clock in text.split()]
    await caller.read_stream_end()
    return late
