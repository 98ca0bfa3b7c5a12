"""How far a turn is from the least that its promises cost, in time and in processor time.

`turnlog up` and the program of `benchmarks/floor.py` run side by side and are asked in turn, with
one session and with fifty. A calibration task beside each run tells how fast the machine was.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.figure_types import BenchmarkTerms, Figure, FigureTarget, require_at_most
from benchmarks.support.benchmark_service import run_service
from benchmarks.support.http_caller import HttpCaller, connect_caller
from benchmarks.support.processor_time import measure_calibration, read_processor_seconds
from benchmarks.support.random_prose import RandomProse

CHARACTERS: Final = 350
"""Of a text and of a reply."""
SINGLE_TURNS: Final = 60
"""Turns of the one session in a run."""
SESSIONS: Final = 50
TURNS_EACH: Final = 6
"""Turns of each of the fifty in a run."""
WARM_UP_TURNS: Final = 10


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """One load, measured once."""

    milliseconds: float
    """Median time of a turn, from its submit to `done`."""
    turns_per_second: float
    processor_milliseconds: float
    """Processor time of all processes for each turn."""


@dataclass(frozen=True, slots=True)
class ServiceUnderLoad:
    """A service that is asked."""

    http: str
    pid: int
    key: str | None = None
    """What it is asked with, where it asks for keys."""


@asynccontextmanager
async def run_floor(folder: Path) -> AsyncGenerator[ServiceUnderLoad]:
    """Run the floor program in a process of its own."""
    words = ("-m", "benchmarks.floor", str(folder))
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=PIPE)
    assert process.stdout
    line = b""
    while not line.startswith(b"http"):
        line = await process.stdout.readline()
    try:
        yield ServiceUnderLoad(line.decode().strip(), process.pid)
    finally:
        process.terminate()
        await process.wait()


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Ask both in turn, once with one session and once with fifty in each run."""
    ours: dict[int, list[MeasuredLoad]] = {1: [], SESSIONS: []}
    floor: dict[int, list[MeasuredLoad]] = {1: [], SESSIONS: []}
    calibrations: list[float] = []
    async with AsyncExitStack() as stack:
        up = await stack.enter_async_context(run_service(terms.folder / "up", CHARACTERS))
        least = await stack.enter_async_context(run_floor(terms.folder / "floor"))
        services = ((ServiceUnderLoad(up.http, up.pid), ours), (least, floor))
        for service, _ in services:
            await measure_load(service, 1, WARM_UP_TURNS)
        for _ in range(terms.runs):
            for sessions, turns in ((1, SINGLE_TURNS), (SESSIONS, TURNS_EACH)):
                for service, measured in services:
                    calibrations.append(measure_calibration())
                    measured[sessions].append(await measure_load(service, sessions, turns))
    return (
        *_build_figures(1, ours[1], floor[1]),
        *_build_figures(SESSIONS, ours[SESSIONS], floor[SESSIONS]),
        Figure(
            name="calibration",
            measured=(
                "processor time of a fixed task in pure Python before each run; 2.5 ms at best"
            ),
            unit="ms",
            runs=tuple(calibrations),
        ),
    )


def _build_figures(
    sessions: int, ours: Sequence[MeasuredLoad], floor: Sequence[MeasuredLoad]
) -> Sequence[Figure]:
    what = f"of turns in {sessions} sessions at once, scripted model"

    def compare(name: str, field: str, unit: str, bound: FigureTarget | None) -> Sequence[Figure]:
        own = [float(getattr(each, field)) for each in ours]
        least = [float(getattr(each, field)) for each in floor]
        ratios = tuple(mine / its for mine, its in zip(own, least, strict=True))
        return (
            Figure(
                name=f"{name}, {sessions}",
                measured=f"{what}; `turnlog up`",
                unit=unit,
                runs=tuple(own),
            ),
            Figure(
                name=f"{name} of the floor, {sessions}",
                measured=f"{what}; floor",
                unit=unit,
                runs=tuple(least),
            ),
            Figure(
                name=f"{name} over the floor, {sessions}",
                measured="the ratio",
                unit="x",
                runs=ratios,
                target=bound,
            ),
        )

    return (
        *compare("time of a turn", "milliseconds", "ms", require_at_most(2)),
        *compare("processor time a turn", "processor_milliseconds", "ms", require_at_most(2)),
        *compare("turns", "turns_per_second", "turns/s", None),
    )


async def measure_load(
    service: ServiceUnderLoad,
    sessions: int,
    turns: int,
    *,
    blueprint: str = "assistant",
    text: str | None = None,
) -> MeasuredLoad:
    """Run turns in new sessions at once, so many in each, with random texts unless there is one."""
    names = [await _open_session(service, blueprint) for _ in range(sessions)]
    prose = RandomProse()
    texts = [[text or prose.generate_text(CHARACTERS) for _ in range(turns)] for _ in names]
    async with AsyncExitStack() as stack:
        connections = (connect_caller(service.http, service.key) for _ in names)
        callers = [await stack.enter_async_context(each) for each in connections]
        before, began = read_processor_seconds(service.pid), time.perf_counter()
        taken = await asyncio.gather(
            *(
                _run_turns(caller, name, own)
                for caller, name, own in zip(callers, names, texts, strict=True)
            )
        )
        took = time.perf_counter() - began
        processor = read_processor_seconds(service.pid) - before
    count = sessions * turns
    times = [each for session in taken for each in session]
    return MeasuredLoad(statistics.median(times) * 1000, count / took, processor / count * 1000)


async def _open_session(service: ServiceUnderLoad, blueprint: str) -> str:
    async with connect_caller(service.http, service.key) as caller:
        opened = await caller.request_json("POST", "/v1/sessions", {"blueprint": blueprint})
    return str(opened["session"])


async def _run_turns(caller: HttpCaller, session: str, texts: Sequence[str]) -> Sequence[float]:
    """Run turns one after another and return the seconds of each."""
    taken: list[float] = []
    for text in texts:
        began = time.perf_counter()
        await caller.run_turn(session, text)
        taken.append(time.perf_counter() - began)
        await caller.read_stream_end()
    return taken
