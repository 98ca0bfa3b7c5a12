"""Reading a log from its start: every event delivered, decoded, chained and folded."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import aclosing

from benchmarks.figure_types import BenchmarkTerms, Figure, require_at_least
from benchmarks.support.filled_logs import SESSIONS, run_filled_log
from turnlog.events.codec import decode_event
from turnlog.events.errors import Corrupt
from turnlog.events.store.ports import EventLog
from turnlog.projections.session.evolve import evolve
from turnlog.projections.session.state import SessionState
from turnlog.services.platform.gc_control import reduce_collection


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Read the same log once in each run."""
    turns = 500 if terms.long else 100
    async with run_filled_log(terms.folder, turns) as on:
        bare = [await _measure_read(on.log, fold=False) for _ in range(terms.runs)]
        taken = [await _measure_read(on.log, fold=True) for _ in range(terms.runs)]
    what = f"{SESSIONS} sessions of {turns} turns from a nats-server"
    return (
        Figure(
            name="read and fold",
            measured=f"{what}: delivered by callback, decoded, each checked against the digest"
            " of the one "
            "before it, and folded into states",
            unit="events/s",
            runs=tuple(wall for wall, _ in taken),
            target=require_at_least(80_000),
        ),
        Figure(
            name="read and fold, own time",
            measured="the same, by the processor time of the reading process alone",
            unit="events/s",
            runs=tuple(own for _, own in taken),
        ),
        Figure(
            name="read only, own time",
            measured=f"{what}: delivered by callback and dropped, by processor time",
            unit="events/s",
            runs=tuple(own for _, own in bare),
        ),
    )


async def _measure_read(log: EventLog, *, fold: bool) -> tuple[float, float]:
    """Give events a second: by the clock, and by the time of this process."""
    states: dict[str, SessionState | None] = {}
    began, own, count = time.perf_counter(), time.process_time(), 0
    with reduce_collection():
        async with aclosing(log.stream_raw_events(None, 0, live=False)) as bulks:
            async for bulk in bulks:
                count += len(bulk)
                for raw in bulk if fold else ():
                    event = decode_event(raw.stored, raw.stream_sequence)
                    before = states.get(event.session)
                    if event.envelope.prevhash != (before.head.hash if before else None):
                        raise Corrupt(f"event {event.sequence}", "is not chained")
                    states[event.session] = evolve(before, event)
    return count / (time.perf_counter() - began), count / (time.process_time() - own)
