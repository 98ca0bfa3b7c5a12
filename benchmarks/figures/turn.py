"""A turn without its model, over HTTP, in a session that grows.

One session of `turnlog up` runs its first turns, gets many more written straight to its log, and
runs turns again. The time in the model is subtracted as each attempt recorded it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Final

from benchmarks.figure_types import BenchmarkTerms, Figure, require_at_most
from benchmarks.support.benchmark_service import run_service
from benchmarks.support.filled_logs import add_turns
from benchmarks.support.http_caller import HttpCaller, connect_caller, wait_for_read_models
from benchmarks.support.random_prose import RandomProse
from turnlog.events.jetstream.jetstream_client import build_client
from turnlog.events.jetstream.nats_connection import open_connection
from turnlog.events.model.call_events import find_attempt_end
from turnlog.events.store.ports import EventLog

TENANT: Final = "default"
TURN_COUNTS: Final = (10, 100, 1_000, 10_000)
TURNS_PER_RUN: Final = 20
"""Turns whose median is one run at a length."""
WARM_UP_TURNS: Final = 5
"""Turns before those, so that what was written meanwhile is read and folded."""
CHARACTERS: Final = 350
"""Of a text and of a reply."""


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Ask one session at each of its ages, as many times over as there are runs."""
    async with (
        run_service(terms.folder, CHARACTERS) as running,
        open_connection(running.nats) as connection,
    ):
        found = await _measure_turn_counts(running.http, build_client(connection).log, terms.runs)
    young, old = found[TURN_COUNTS[1]], found[TURN_COUNTS[-1]]
    older = Figure(
        "turn at 10,000 over at 100",
        "p50 of a turn without its model after 10,000 turns, over that after 100, of one session",
        "x",
        tuple(late / early for early, late in zip(young, old, strict=True)),
        require_at_most(1.1),
    )
    return (*(_build_figure(place, runs) for place, runs in found.items()), older)


def _build_figure(place: int, runs: tuple[float, ...]) -> Figure:
    return Figure(
        f"turn at {place:,} turns",
        f"p50 of {TURNS_PER_RUN} turns from before the submit is sent over HTTP until "
        "`done` is read from "
        "its event stream, less what the attempt recorded as its time in the model; `turnlog up`",
        "ms",
        runs,
        require_at_most(15),
    )


async def _measure_turn_counts(http: str, log: EventLog, runs: int) -> dict[int, tuple[float, ...]]:
    async with connect_caller(http) as caller:
        opened = await caller.request_json("POST", "/v1/sessions", {"blueprint": "assistant"})
    session, prose = str(opened["session"]), RandomProse()
    found: dict[int, tuple[float, ...]] = {}
    for place in TURN_COUNTS:
        if found:
            await add_turns(log, TENANT, session, place - WARM_UP_TURNS)
        async with connect_caller(http) as caller:
            await wait_for_read_models(caller, log, TENANT, session)
            for _ in range(WARM_UP_TURNS):
                await _measure_turn(caller, session, prose)
            medians = [await _measure_median(caller, log, session, prose) for _ in range(runs)]
            found[place] = tuple(medians)
    return found


async def _measure_median(
    caller: HttpCaller, log: EventLog, session: str, prose: RandomProse
) -> float:
    before = await log.read_last_event(TENANT, session)
    took = [await _measure_turn(caller, session, prose) for _ in range(TURNS_PER_RUN)]
    last = await log.read_last_event(TENANT, session)
    assert before
    assert last
    ends = (
        find_attempt_end(recorded.event)
        for recorded in await log.read_range(TENANT, session, before.head, last)
    )
    inside = [ended.timings.total for ended in ends if ended and ended.timings]
    return statistics.median(total - model for total, model in zip(took, inside, strict=True))


async def _measure_turn(caller: HttpCaller, session: str, prose: RandomProse) -> float:
    """Run one turn and return its milliseconds."""
    text = prose.generate_text(CHARACTERS)
    began = time.perf_counter()
    await caller.run_turn(session, text)
    took = time.perf_counter() - began
    await caller.read_stream_end()
    return took * 1000
