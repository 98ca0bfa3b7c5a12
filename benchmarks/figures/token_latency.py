"""The time a token takes from the model to a client that watches the turn over HTTP."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from typing import Final

from benchmarks.figure import Figure, Terms, at_most
from benchmarks.parts.caller import Caller, calling
from benchmarks.parts.running import up
from benchmarks.parts.speaker import Speech, speaking_apart

SPEECH: Final = Speech(tokens=200, pace=0.02)


async def measure(terms: Terms) -> Sequence[Figure]:
    """Watch a model that sends its clock fifty times a second, once in each run."""
    async with speaking_apart(SPEECH) as model:
        told = {"TURNLOG_MODEL": "openai/bench", "OPENAI_API_BASE": model}
        async with up(terms.folder, 10, told) as running, calling(running.http) as caller:
            opened = await caller.ask("POST", "/v1/sessions", {"blueprint": "assistant"})
            heard = [await _heard(caller, str(opened["session"])) for _ in range(terms.runs + 1)]
    runs = heard[1:]  # litellm is still loading during the first turn.
    middle = tuple(statistics.median(run) for run in runs)
    late = tuple(statistics.quantiles(run, n=100)[98] for run in runs)
    way = "from a model's server, that sends it as a clock reading, to an SSE client of the gateway"
    return (
        Figure("token to SSE client", f"p50 {way}; `turnlog up`", "ms", middle, at_most(2)),
        Figure("token to SSE client, p99", f"p99 {way}", "ms", late),
    )


async def _heard(caller: Caller, session: str) -> list[float]:
    """Run one turn and return the delay of each of its tokens in milliseconds."""
    late: list[float] = []
    async for line in caller.watched(session, "What time is it?"):
        now = time.monotonic_ns()
        if line.startswith(b'data: {"text":'):
            said = str(json.loads(line.removeprefix(b"data: "))["text"])
            late += [(now - int(clock)) / 1e6 for clock in said.split()]
    await caller.rest()
    return late
