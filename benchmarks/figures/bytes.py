"""Bytes on disk for each turn: the log with its snapshots and blobs, and the read models."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.figure_types import BenchmarkTerms, Figure, require_at_most
from benchmarks.support.benchmark_service import run_service
from benchmarks.support.filled_logs import add_turns
from benchmarks.support.http_caller import connect_caller, wait_for_read_models
from benchmarks.support.random_prose import RandomProse
from turnlog.events.jetstream.jetstream_client import build_client
from turnlog.events.jetstream.nats_connection import open_connection
from turnlog.events.store.ports import EventLog

CHARACTERS: Final = 350
"""Of a text, and of a reply."""
REAL_TURNS: Final = 5
"""Real turns in each session, where time is short."""
SESSIONS_AT_ONCE: Final = 8
TENANT: Final = "default"
FILE_PATTERNS: Final[Mapping[str, str]] = {
    "events": "**/SESSIONS/msgs/*.blk",
    "snapshots": "**/SNAPSHOTS/msgs/*.blk",
    "read models": "*.db*",
}


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Fill many sessions with as many turns as one session, so that both compress as much."""
    sessions, turns = (100, 100) if terms.long else (40, 75)
    many = await _measure_bytes(terms, "many", sessions, turns)
    one = await _measure_bytes(terms, "one", 1, sessions * turns)
    in_many, in_one = f"{sessions} sessions of {turns} turns", f"one of {sessions * turns:,}"
    # Copied manifests have the same digests, which compress better than real ones.
    copies = (
        f"the first {REAL_TURNS} real, the rest copies with other texts, too small by their digests"
    )
    how = "all of them real" if terms.long else copies
    measured = (
        f"files of NATS and SQLite once `turnlog up` has ended, a turn of {2 * CHARACTERS} "
        f"characters of ordinary words, {how}"
    )
    return (
        _build_figure("many sessions", f"{measured}; {in_many}", sum(many.values())),
        _build_figure("one session", f"{measured}; {in_one}", sum(one.values())),
        Figure(
            name="bytes a turn, one session over many",
            measured=f"{in_one} over {in_many}",
            unit="x",
            runs=(sum(one.values()) / sum(many.values()),),
            target=require_at_most(1.1),
        ),
        *(
            Figure(
                name=f"bytes a turn, {part}",
                measured=f"of one session's, {part}",
                unit="bytes",
                runs=(size,),
            )
            for part, size in one.items()
        ),
    )


def _build_figure(name: str, measured: str, size: float) -> Figure:
    return Figure(
        name=f"bytes a turn, {name}",
        measured=measured,
        unit="bytes",
        runs=(size,),
        target=require_at_most(6_000),
    )


async def _measure_bytes(
    terms: BenchmarkTerms, name: str, sessions: int, turns: int
) -> dict[str, float]:
    """Return the bytes for each turn, by part."""
    folder = terms.folder / name
    async with (
        run_service(folder, CHARACTERS) as running,
        open_connection(running.nats) as connection,
    ):
        log, real = build_client(connection).log, turns if terms.long else REAL_TURNS
        for at_once in range(0, sessions, SESSIONS_AT_ONCE):
            some = range(at_once, min(sessions, at_once + SESSIONS_AT_ONCE))
            await asyncio.gather(
                *(
                    _fill_session(
                        http=running.http, log=log, real=real, turns=turns, prose=RandomProse(seed)
                    )
                    for seed in some
                )
            )
    found = {part: _sum_file_sizes(folder / "data", files) for part, files in FILE_PATTERNS.items()}
    return {part: size / (sessions * turns) for part, size in found.items()}


async def _fill_session(
    http: str, log: EventLog, real: int, turns: int, prose: RandomProse
) -> None:
    async with connect_caller(http) as caller:
        opened = await caller.request_json("POST", "/v1/sessions", {"blueprint": "assistant"})
        session = str(opened["session"])
        for _ in range(real):
            await caller.run_turn(session, prose.generate_text(CHARACTERS))
            await caller.read_stream_end()
    await add_turns(log, TENANT, session, turns)
    async with connect_caller(http) as caller:
        await wait_for_read_models(caller, log, TENANT, session)


def _sum_file_sizes(folder: Path, files: str) -> int:
    return sum(file.stat().st_size for file in folder.glob(files))
