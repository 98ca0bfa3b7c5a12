"""Rebuilding the read models from the log, on SQLite and on Postgres."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figure_types import BenchmarkTerms, Figure, require_at_least
from benchmarks.support.filled_logs import SESSIONS, run_filled_log
from tests.support.servers.postgres_server import prepare_server
from turnlog.events.store.ports import EventLog
from turnlog.projections.store.engine import open_store
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.services.platform.telemetry.traces import create_tracing
from turnlog.services.projector.log_fold import LogFolder, rebuild_rows

RebuildRates = list[tuple[float, float]]


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Rebuild the same log into either database, each run into an empty one."""
    turns = 500 if terms.long else 100
    async with run_filled_log(terms.folder / "nats", turns) as on:
        files = [terms.folder / f"rows{run}.db" for run in range(terms.runs)]
        sqlite = [await _measure_rebuild(on.log, f"sqlite:///{file}") for file in files]
        postgres = await _measure_on_postgres(on.log, terms.runs)
    what = f"{SESSIONS} sessions of {turns} turns"
    return (
        *_build_figures("SQLite", what, sqlite, 30_000),
        *_build_figures("Postgres", what, postgres, 60_000),
    )


def _build_figures(
    database: str, what: str, taken: RebuildRates, target: int
) -> tuple[Figure, Figure]:
    return (
        Figure(
            name=f"rebuild on {database}",
            measured=f"{what} read from a nats-server and folded into an empty database,"
            " commits and the "
            "switch of readers included",
            unit="events/s",
            runs=tuple(wall for wall, _ in taken),
            target=require_at_least(target),
        ),
        Figure(
            name=f"rebuild on {database}, own time",
            measured="the same, by the processor time of the rebuilding process alone",
            unit="events/s",
            runs=tuple(own for _, own in taken),
        ),
    )


async def _measure_on_postgres(log: EventLog, runs: int) -> RebuildRates:
    with tempfile.TemporaryDirectory(prefix="turnlog-") as folder:
        server = prepare_server(Path(folder))
        server.create_cluster()
        server.start_server()
        try:
            taken: RebuildRates = []
            for run in range(runs):
                await server.execute_statement(f"CREATE DATABASE run{run}")
                taken.append(await _measure_rebuild(log, server.build_url(f"run{run}")))
        finally:
            server.stop_server()
    return taken


async def _measure_rebuild(log: EventLog, url: str) -> tuple[float, float]:
    """Give events a second: by the clock, and by the time of this process."""
    store, position = open_store(url), 0

    def progress(reached: int, goal: int) -> None:
        nonlocal position
        position = max(reached, goal)

    try:
        await prepare_schema(store)
        began, own = time.perf_counter(), time.process_time()
        await rebuild_rows(
            LogFolder(log=log, store=store, tracing=create_tracing("bench", None), tenant="bench"),
            progress,
        )
        wall, processor_time = time.perf_counter() - began, time.process_time() - own
    finally:
        await store.close()
    return position / wall, position / processor_time
