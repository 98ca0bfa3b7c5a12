"""Rebuilding the read models from the log, on SQLite and on Postgres."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figure import Figure, Terms, at_least
from benchmarks.parts.filling import SESSIONS, filled
from tests.parts.postgres import unstarted
from turnlog.events.log.ports import Log
from turnlog.projections.store.engine import open_store
from turnlog.projections.store.schema import prepare
from turnlog.services.projector.folding import Folding
from turnlog.services.projector.rebuild import rebuild
from turnlog.services.runtime.telemetry import tracing

Taken = list[tuple[float, float]]


async def measure(terms: Terms) -> Sequence[Figure]:
    """Rebuild the same log into either database, each run into an empty one."""
    turns = 500 if terms.long else 100
    async with filled(terms.folder / "nats", turns) as on:
        files = [terms.folder / f"rows{run}.db" for run in range(terms.runs)]
        sqlite = [await _rebuilt(on.log, f"sqlite:///{file}") for file in files]
        postgres = await _on_postgres(on.log, terms.runs)
    what = f"{SESSIONS} sessions of {turns} turns"
    return (*_figures("SQLite", what, sqlite), *_figures("Postgres", what, postgres))


def _figures(database: str, what: str, taken: Taken) -> tuple[Figure, Figure]:
    return (
        Figure(
            f"rebuild on {database}",
            f"{what} read from a nats-server and folded into an empty database, commits and the "
            "switch of readers included",
            "events/s",
            tuple(wall for wall, _ in taken),
            at_least(20_000),
        ),
        Figure(
            f"rebuild on {database}, own time",
            "the same, by the processor time of the rebuilding process alone",
            "events/s",
            tuple(own for _, own in taken),
        ),
    )


async def _on_postgres(log: Log, runs: int) -> Taken:
    with tempfile.TemporaryDirectory(prefix="turnlog-") as folder:
        server = unstarted(Path(folder))
        server.initialise()
        server.start()
        try:
            taken: Taken = []
            for run in range(runs):
                await server.execute(f"CREATE DATABASE run{run}")
                taken.append(await _rebuilt(log, server.url(f"run{run}")))
        finally:
            server.stop()
    return taken


async def _rebuilt(log: Log, url: str) -> tuple[float, float]:
    """Return events a second: by the clock, and by the time of this process."""
    store, position = open_store(url), 0

    def progress(reached: int, goal: int) -> None:
        nonlocal position
        position = max(reached, goal)

    try:
        await prepare(store)
        began, own = time.perf_counter(), time.process_time()
        await rebuild(Folding(log, store, tracing("bench", None), "bench"), progress)
        wall, ours = time.perf_counter() - began, time.process_time() - own
    finally:
        await store.close()
    return position / wall, position / ours
