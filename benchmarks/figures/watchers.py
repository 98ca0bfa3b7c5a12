"""What watchers of events cost: how late an event reaches them, and how much they slow turns."""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from threading import Event
from typing import Final, cast
from urllib.parse import urlsplit

from benchmarks.figure_types import BenchmarkTerms, Figure, require_at_most
from benchmarks.support.benchmark_service import run_service
from benchmarks.support.http_caller import connect_caller
from benchmarks.support.processor_time import read_processor_seconds

SESSIONS: Final = 100

TURNS_A_SECOND: Final = 4

CHARACTERS: Final = 400
"""Of a reply."""

TIME_FIELD: Final = b'"time":"'

TIME_CHARACTERS: Final = len("2026-11-23T08:15:30.123456")


@dataclass(frozen=True, slots=True)
class Crowd:
    """Watchers of all sessions, or of each of them."""

    of_all: int = 0
    of_each: int = 0


@dataclass(frozen=True, slots=True)
class WatchedLoad:
    """How turns went, and what the watchers got."""

    turn_seconds: float
    """The median."""
    processor_seconds: float
    """Of the service, a turn."""
    received: Sequence[int]
    """Events of each watcher."""
    lateness: Sequence[float]
    """Seconds from an event's time to its arrival, of the last of each piece that came."""


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Run the same turns without watchers and with them, in turn."""
    crowds = {"nobody": Crowd(), "200 of all": Crowd(of_all=200), "500 of 100": Crowd(of_each=5)}
    found: dict[str, list[WatchedLoad]] = {name: [] for name in crowds}
    async with run_service(terms.folder, CHARACTERS) as service:
        async with connect_caller(service.http) as caller:
            for at in range(SESSIONS):
                opened = {"session": f"s{at}", "blueprint": "assistant"}
                await caller.request_json("POST", "/v1/sessions", opened)
        await _run_turns(service.http, 10)
        for _ in range(terms.runs):
            for name, crowd in crowds.items():
                found[name].append(
                    await _measure_crowd(service.http, service.pid, crowd, 30 if terms.long else 15)
                )
    return [
        figure
        for name in list(crowds)[1:]
        for figure in _build_figures(name, found[name], found["nobody"])
    ]


def _build_figures(
    name: str, loads: Sequence[WatchedLoad], without: Sequence[WatchedLoad]
) -> Sequence[Figure]:
    what = f"{TURNS_A_SECOND} turns a second over {SESSIONS} sessions, {name} watched"
    pairs = list(zip(loads, without, strict=True))
    return (
        Figure(
            name=f"{name}: turn alone",
            measured=f"{what}: the median time of a turn without watchers",
            unit="ms",
            runs=tuple(bare.turn_seconds * 1_000 for bare in without),
        ),
        Figure(
            name=f"{name}: turn",
            measured=f"{what}: the median time of a turn over that without watchers",
            unit="x",
            runs=tuple(each.turn_seconds / bare.turn_seconds for each, bare in pairs),
            target=require_at_most(1.2),
        ),
        Figure(
            name=f"{name}: processor",
            measured=f"{what}: processor time of the service for a delivery, beside that of turns",
            unit="ms",
            runs=tuple(
                (each.processor_seconds - bare.processor_seconds) * 1_000 / sum(each.received)
                for each, bare in pairs
            ),
        ),
        Figure(
            name=f"{name}: p99",
            measured=f"{what}: seconds from an event to its arrival",
            unit="s",
            runs=tuple(statistics.quantiles(each.lateness, n=100)[98] for each in loads),
            target=require_at_most(1),
        ),
        Figure(
            name=f"{name}: lost",
            measured=f"{what}: watchers of the same events that got fewer than others",
            unit="watchers",
            runs=tuple(float(_count_short(name, each.received)) for each in loads),
            target=require_at_most(0),
        ),
    )


def _count_short(name: str, received: Sequence[int]) -> int:
    if "of all" in name:
        return sum(each < max(received) for each in received)
    size = len(received) // SESSIONS
    groups = [received[at * size : (at + 1) * size] for at in range(SESSIONS)]
    return sum(each < max(group) for group in groups for each in group)


async def _measure_crowd(http: str, pid: int, crowd: Crowd, seconds: int) -> WatchedLoad:
    paths, spawn = await _find_ends(http, crowd), multiprocessing.get_context("spawn")
    with spawn.Manager() as manager, ProcessPoolExecutor(1, mp_context=spawn) as process:
        ready, over = manager.Event(), manager.Event()
        watching = process.submit(watch_events, http, paths, ready, over)
        await asyncio.to_thread(ready.wait)
        before = read_processor_seconds(pid)
        taken = await _run_turns(http, seconds * TURNS_A_SECOND)
        await asyncio.sleep(2)
        used = read_processor_seconds(pid) - before
        over.set()
        received, lateness = watching.result()
    return WatchedLoad(statistics.median(taken), used, received, lateness)


async def _run_turns(http: str, turns: int) -> list[float]:
    """Submit turns at their rate; return how long each took."""

    async def run_turn(at: int) -> float:
        await asyncio.sleep(at / TURNS_A_SECOND)
        async with connect_caller(http) as caller:
            began = time.perf_counter()
            await caller.run_turn(f"s{at % SESSIONS}", "What is it?")
            return time.perf_counter() - began

    return list(await asyncio.gather(*map(run_turn, range(turns))))


@dataclass
class EventCounter(asyncio.Protocol):
    """Counts the events that arrive, and notes how late the last of each piece is."""

    path: str
    received: int = 0
    lateness: list[float] = field(default_factory=list[float])
    transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the stream."""
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport
        head = f"GET {self.path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n"
        transport.write(head.encode())

    def data_received(self, data: bytes) -> None:
        """Count what came."""
        self.received += data.count(b"\ndata: ")
        place = data.rfind(TIME_FIELD)
        text = data[place + len(TIME_FIELD) :][:TIME_CHARACTERS] if place >= 0 else b""
        if len(text) == TIME_CHARACTERS:
            at = datetime.fromisoformat(text.decode()).replace(tzinfo=UTC)
            self.lateness.append(time.time() - at.timestamp())


def watch_events(
    http: str, paths: Sequence[str], ready: Event, over: Event
) -> tuple[list[int], list[float]]:
    """Watch in a process of its own; return how many events each got, and how late."""
    return asyncio.run(_watch_paths(http, paths, ready, over))


async def _watch_paths(
    http: str, paths: Sequence[str], ready: Event, over: Event
) -> tuple[list[int], list[float]]:
    place, loop = urlsplit(http), asyncio.get_running_loop()
    counters = [EventCounter(path) for path in paths]
    assert place.hostname
    assert place.port
    for each in counters:
        await loop.create_connection(partial(_return_counter, each), place.hostname, place.port)
    await asyncio.sleep(1)
    ready.set()
    await asyncio.to_thread(over.wait)
    for each in counters:
        assert each.transport
        each.transport.close()
    lateness = [late for each in counters for late in each.lateness]
    return [each.received for each in counters], lateness


def _return_counter(counter: EventCounter) -> EventCounter:
    return counter


async def _find_ends(http: str, crowd: Crowd) -> list[str]:
    """Return what each watches, from now on."""
    async with connect_caller(http) as caller:
        after, more = 0, bool(crowd.of_all)
        while more:
            page = await caller.request_json("GET", f"/v1/events?limit=1000&after={after}")
            after, more = cast("int", page["after"]), bool(page["more"])
        paths = [f"/v1/events?after={after}"] * crowd.of_all
        for at in range(SESSIONS if crowd.of_each else 0):
            session = f"/v1/sessions/s{at}/events"
            page = await caller.request_json("GET", f"{session}?limit=1")
            paths += [f"{session}?after={page['sequence']}"] * crowd.of_each
    return paths
