"""Bytes on disk for each turn: the log with its snapshots and blobs, and the read models."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.figure import Figure, Terms, at_most
from benchmarks.parts.aging import aged
from benchmarks.parts.caller import calling, caught_up
from benchmarks.parts.prose import Prose
from benchmarks.parts.running import up
from turnlog.events.jetstream.jetstream_client import build_client
from turnlog.events.jetstream.nats_connection import open_connection
from turnlog.events.store.ports import EventLog

CHARACTERS: Final = 350
"""Of a text, and of a reply."""
REAL: Final = 5
"""Real turns in each session, where time is short."""
AT_ONCE: Final = 8
TENANT: Final = "default"
PARTS: Final[Mapping[str, str]] = {
    "events": "**/SESSIONS/msgs/*.blk",
    "snapshots": "**/SNAPSHOTS/msgs/*.blk",
    "read models": "*.db*",
}


async def measure(terms: Terms) -> Sequence[Figure]:
    """Fill many sessions with as many turns as one session, so that both compress as much."""
    sessions, turns = (100, 100) if terms.long else (40, 75)
    many = await _taken(terms, "many", sessions, turns)
    one = await _taken(terms, "one", 1, sessions * turns)
    in_many, in_one = f"{sessions} sessions of {turns} turns", f"one of {sessions * turns:,}"
    # Copied manifests have the same digests, which compress better than real ones.
    copies = f"the first {REAL} real, the rest copies with other texts, too small by their digests"
    how = "all of them real" if terms.long else copies
    measured = (
        f"files of NATS and SQLite once `turnlog up` has ended, a turn of {2 * CHARACTERS} "
        f"characters of ordinary words, {how}"
    )
    return (
        _figure("many sessions", f"{measured}; {in_many}", sum(many.values())),
        _figure("one session", f"{measured}; {in_one}", sum(one.values())),
        Figure(
            "bytes a turn, one session over many",
            f"{in_one} over {in_many}",
            "x",
            (sum(one.values()) / sum(many.values()),),
            at_most(1.1),
        ),
        *(
            Figure(f"bytes a turn, {part}", f"of one session's, {part}", "bytes", (size,))
            for part, size in one.items()
        ),
    )


def _figure(name: str, measured: str, size: float) -> Figure:
    return Figure(f"bytes a turn, {name}", measured, "bytes", (size,), at_most(6_000))


async def _taken(terms: Terms, name: str, sessions: int, turns: int) -> dict[str, float]:
    """Return the bytes for each turn, by part."""
    folder = terms.folder / name
    async with up(folder, CHARACTERS) as running, open_connection(running.nats) as connection:
        log, real = build_client(connection).log, turns if terms.long else REAL
        for at_once in range(0, sessions, AT_ONCE):
            some = range(at_once, min(sessions, at_once + AT_ONCE))
            await asyncio.gather(
                *(_talked(running.http, log, real, turns, Prose(seed)) for seed in some)
            )
    found = {part: _bytes(folder / "data", files) for part, files in PARTS.items()}
    return {part: size / (sessions * turns) for part, size in found.items()}


async def _talked(http: str, log: EventLog, real: int, turns: int, prose: Prose) -> None:
    async with calling(http) as caller:
        opened = await caller.ask("POST", "/v1/sessions", {"blueprint": "assistant"})
        session = str(opened["session"])
        for _ in range(real):
            await caller.turn(session, prose.say(CHARACTERS))
            await caller.rest()
    await aged(log, TENANT, session, turns)
    async with calling(http) as caller:
        await caught_up(caller, log, TENANT, session)


def _bytes(folder: Path, files: str) -> int:
    return sum(file.stat().st_size for file in folder.glob(files))
