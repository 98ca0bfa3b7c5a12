"""A turn without its model, over HTTP, in a session that grows.

One session of `turnlog up` runs its first turns, gets many more written straight to its log, and
runs turns again. The time of litellm is subtracted as each attempt recorded it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Final

from benchmarks.figure import Figure, Terms, at_most
from benchmarks.parts.aging import aged
from benchmarks.parts.caller import Caller, calling, caught_up
from benchmarks.parts.prose import Prose
from benchmarks.parts.running import up
from turnlog.events.jetstream.jetstream_client import build_client
from turnlog.events.jetstream.nats_connection import open_connection
from turnlog.events.model.call_events import AttemptEnded
from turnlog.events.store.ports import EventLog

TENANT: Final = "default"
PLACES: Final = (10, 100, 1_000, 10_000)
AROUND: Final = 20
"""Turns whose median is one run at a length."""
WARM: Final = 5
"""Turns before those, so that what was written meanwhile is read and folded."""
CHARACTERS: Final = 350
"""Of a text and of a reply."""


async def measure(terms: Terms) -> Sequence[Figure]:
    """Ask one session at each of its ages, as many times over as there are runs."""
    async with up(terms.folder, CHARACTERS) as running, open_connection(running.nats) as connection:
        found = await _places(running.http, build_client(connection).log, terms.runs)
    young, old = found[PLACES[1]], found[PLACES[-1]]
    older = Figure(
        "turn at 10,000 over at 100",
        "p50 of a turn without its model after 10,000 turns, over that after 100, of one session",
        "x",
        tuple(late / early for early, late in zip(young, old, strict=True)),
        at_most(1.1),
    )
    return (*(_figure(place, runs) for place, runs in found.items()), older)


def _figure(place: int, runs: tuple[float, ...]) -> Figure:
    return Figure(
        f"turn at {place:,} turns",
        f"p50 of {AROUND} turns from before the submit is sent over HTTP until `done` is read from "
        "its event stream, less what the attempt recorded as its time in litellm; `turnlog up`",
        "ms",
        runs,
        at_most(15),
    )


async def _places(http: str, log: EventLog, runs: int) -> dict[int, tuple[float, ...]]:
    async with calling(http) as caller:
        opened = await caller.ask("POST", "/v1/sessions", {"blueprint": "assistant"})
    session, prose = str(opened["session"]), Prose()
    found: dict[int, tuple[float, ...]] = {}
    for place in PLACES:
        if found:
            await aged(log, TENANT, session, place - WARM)
        async with calling(http) as caller:
            await caught_up(caller, log, TENANT, session)
            for _ in range(WARM):
                await _turn(caller, session, prose)
            medians = [await _around(caller, log, session, prose) for _ in range(runs)]
            found[place] = tuple(medians)
    return found


async def _around(caller: Caller, log: EventLog, session: str, prose: Prose) -> float:
    before = await log.read_last_event(TENANT, session)
    took = [await _turn(caller, session, prose) for _ in range(AROUND)]
    last = await log.read_last_event(TENANT, session)
    assert before
    assert last
    inside = [
        recorded.event.timings.total
        for recorded in await log.read_range(TENANT, session, before.head, last)
        if isinstance(recorded.event, AttemptEnded) and recorded.event.timings
    ]
    return statistics.median(whole - model for whole, model in zip(took, inside, strict=True))


async def _turn(caller: Caller, session: str, prose: Prose) -> float:
    """Run one turn and return its milliseconds."""
    text = prose.say(CHARACTERS)
    began = time.perf_counter()
    await caller.turn(session, text)
    took = time.perf_counter() - began
    await caller.rest()
    return took * 1000
