"""A turn without its model, over HTTP, in sessions of different ages.

Each age has a `turnlog up` of its own, so that an old session also stands in an old log, an old
database and a process that has seen all of it. The turns of a session are partly its own and mostly
written straight to its log. The sessions are then asked in alternating blocks: what the machine
does meanwhile is done to all of them. Turns of one age, then those of the next, compare moments: in
that way the same session took 16 to 25 ms of processor time within a few minutes. The time in the
model is subtracted as each attempt recorded it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.figure_types import BenchmarkTerms, Figure, require_at_most
from benchmarks.support.benchmark_service import run_service
from benchmarks.support.filled_logs import add_turns
from benchmarks.support.http_caller import HttpCaller, connect_caller, wait_for_read_models
from benchmarks.support.processor_time import read_processor_seconds
from benchmarks.support.random_prose import RandomProse
from turnlog.events.jetstream.jetstream_client import build_client
from turnlog.events.jetstream.nats_connection import open_connection
from turnlog.events.model.call_events import find_attempt_end
from turnlog.events.store.ports import EventLog

TENANT: Final = "default"
TURN_COUNTS: Final = (10, 100, 1_000, 10_000)
YOUNG: Final = 100
OLD: Final = 10_000
"""The ages whose turns are compared."""
BLOCK_TURNS: Final = 10
"""Turns of a session before the next one is asked."""
BLOCKS: Final = 4
"""Blocks of each session in a run."""
WARM_UP_TURNS: Final = 10
"""Turns before the first block; a worker comes to them once it is through what was written."""
CHARACTERS: Final = 350
"""Of a text and of a reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgedSession:
    """A session with many turns, in a service of its own."""

    http: str
    pid: int
    log: EventLog
    session: str
    prose: RandomProse = field(default_factory=RandomProse)


@dataclass(slots=True)
class MeasuredTurns:
    """What the turns of one session took in one run."""

    milliseconds: list[float] = field(default_factory=list[float])
    """Of each turn, less its model."""
    processor_seconds: float = 0.0
    """Of all processes of the service."""

    @property
    def median(self) -> float:
        """The median time of a turn, in milliseconds."""
        return statistics.median(self.milliseconds)

    @property
    def processor_milliseconds(self) -> float:
        """Processor time of a turn."""
        return self.processor_seconds * 1000 / len(self.milliseconds)


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Ask sessions of all ages in alternating blocks, as many times over as there are runs."""
    async with AsyncExitStack() as stack:
        aged = {
            count: await _open_session(stack, terms.folder / str(count), count)
            for count in TURN_COUNTS
        }
        runs = [await _measure_run(aged) for _ in range(terms.runs)]
    return (
        *(_build_figure(count, [run[count] for run in runs]) for count in TURN_COUNTS),
        Figure(
            name="turn at 10,000 over at 100",
            measured="p50 of a turn without its model in a session of 10,000 turns, over that"
            " in one of "
            "100, in alternating blocks",
            unit="x",
            runs=tuple(run[OLD].median / run[YOUNG].median for run in runs),
            target=require_at_most(1.05),
        ),
        Figure(
            name="processor time at 10,000 over at 100",
            measured="processor time of all processes for a turn, in the same blocks",
            unit="x",
            runs=tuple(
                run[OLD].processor_milliseconds / run[YOUNG].processor_milliseconds for run in runs
            ),
            target=require_at_most(1.05),
        ),
    )


def _build_figure(count: int, runs: Sequence[MeasuredTurns]) -> Figure:
    return Figure(
        name=f"turn at {count:,} turns",
        measured=f"p50 of {BLOCKS * BLOCK_TURNS} turns from before the submit is sent over"
        " HTTP until "
        "`done` is read from "
        "its event stream, less what the attempt recorded as its time in the model; `turnlog up`",
        unit="ms",
        runs=tuple(run.median for run in runs),
        target=require_at_most(15),
    )


async def _open_session(stack: AsyncExitStack, folder: Path, count: int) -> AgedSession:
    """Start a service and give a session of it so many turns."""
    running = await stack.enter_async_context(run_service(folder, CHARACTERS))
    connection = await stack.enter_async_context(open_connection(running.nats))
    async with connect_caller(running.http) as caller:
        opened = await caller.request_json("POST", "/v1/sessions", {"blueprint": "assistant"})
        found = AgedSession(
            http=running.http,
            pid=running.pid,
            log=build_client(connection).log,
            session=str(opened["session"]),
        )
        await _measure_turn(caller, found)
    await add_turns(found.log, TENANT, found.session, count - WARM_UP_TURNS)
    async with connect_caller(found.http) as caller:
        await wait_for_read_models(caller, found.log, TENANT, found.session)
        for _ in range(WARM_UP_TURNS):
            await _measure_turn(caller, found)
    return found


async def _measure_run(aged: dict[int, AgedSession]) -> dict[int, MeasuredTurns]:
    found = {count: MeasuredTurns() for count in aged}
    for block in range(BLOCKS):
        # Forth and back, so that no session always follows the same one.
        for count in list(aged)[:: -1 if block % 2 else 1]:
            await _measure_block(aged[count], found[count])
    return found


async def _measure_block(aged: AgedSession, measured: MeasuredTurns) -> None:
    before = await aged.log.read_last_event(TENANT, aged.session)
    async with connect_caller(aged.http) as caller:
        began = read_processor_seconds(aged.pid)
        took = [await _measure_turn(caller, aged) for _ in range(BLOCK_TURNS)]
        measured.processor_seconds += read_processor_seconds(aged.pid) - began
    last = await aged.log.read_last_event(TENANT, aged.session)
    assert before
    assert last
    ends = (
        find_attempt_end(recorded.event)
        for recorded in await aged.log.read_range(TENANT, aged.session, before.head, last)
    )
    inside = [ended.timings.total for ended in ends if ended and ended.timings]
    measured.milliseconds += [total - model for total, model in zip(took, inside, strict=True)]


async def _measure_turn(caller: HttpCaller, aged: AgedSession) -> float:
    """Run one turn and return its milliseconds."""
    text = aged.prose.generate_text(CHARACTERS)
    began = time.perf_counter()
    await caller.run_turn(aged.session, text)
    took = time.perf_counter() - began
    await caller.read_stream_end()
    return took * 1000
