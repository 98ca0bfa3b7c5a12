"""The past of a session of ten thousand turns: any prompt again, in both ways, and any state.

The calls that are asked for are real; between them the session was made old by turns written
straight to its log, so there are no waypoints there until somebody reads across.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterable, Sequence
from typing import Final

from benchmarks.figure import Figure, Terms, at_most
from benchmarks.parts.aging import aged
from benchmarks.parts.caller import Caller, calling, caught_up
from benchmarks.parts.prose import Prose
from benchmarks.parts.running import up
from turnlog.events.log.ports import Log
from turnlog.events.nats.connection import connected
from turnlog.events.nats.opening import jetstream_on

TENANT: Final = "default"
REAL: Final = 15
"""Real turns at each age."""
AGES: Final = (REAL, 5_000, 10_000)
"""Turns there are after each of those."""
STATES: Final = 30
CHARACTERS: Final = 350
"""Of a text and of a reply."""


async def measure(terms: Terms) -> Sequence[Figure]:
    """Ask for every real call, and for states at random, as many times over as there are runs."""
    async with up(terms.folder, CHARACTERS) as running, connected(running.nats) as connection:
        log = jetstream_on(connection).log
        session = await _old(running.http, log)
        here = f"/v1/sessions/{session}"
        end = await log.last(TENANT, session)
        assert end
        prompts = [f"{here}/calls/{turn}.1/prompt" for age in AGES for turn in _real(age)]
        drawn = random.Random(5)  # noqa: S311 - any will do, the same each time
        states = [f"{here}?at={drawn.randint(1, end.sequence)}" for _ in range(STATES)]
        async with calling(running.http) as caller:
            (first,) = await _times(caller, [f"{here}?at={end.sequence // 2}"])
            of_prompts = [await _times(caller, prompts) for _ in range(terms.runs)]
            of_states = [await _times(caller, states) for _ in range(terms.runs)]
    return (
        Figure(
            "any prompt of 10,000 turns",
            f"p50 of the prompts of {len(prompts)} calls over HTTP, each read back by reference "
            "and assembled again, both compared with the record; windows of 8,000 tokens",
            "ms",
            tuple(statistics.median(took) for took in of_prompts),
            at_most(50),
        ),
        Figure(
            "any prompt of 10,000 turns, slowest",
            "the slowest of the same",
            "ms",
            tuple(max(took) for took in of_prompts),
        ),
        Figure(
            "any state of 10,000 turns",
            f"p50 of the session over HTTP at {STATES} sequences",
            "ms",
            tuple(statistics.median(took) for took in of_states),
        ),
        Figure(
            "a state without waypoints",
            "the first at the half of those turns, by reading and folding all before it",
            "ms",
            (first,),
        ),
    )


def _real(age: int) -> range:
    return range(age - REAL + 1, age + 1)


async def _times(caller: Caller, paths: Iterable[str]) -> list[float]:
    """Give how long each takes, in milliseconds."""
    took: list[float] = []
    for path in paths:
        began = time.perf_counter()
        answer = await caller.ask("GET", path)
        took.append((time.perf_counter() - began) * 1000)
        assert answer.get("verified", True), answer
    return took


async def _old(http: str, log: Log) -> str:
    """Have a session with real turns at each age; gives its id."""
    async with calling(http) as caller:
        opened = await caller.ask("POST", "/v1/sessions", {"blueprint": "assistant"})
    session, prose = str(opened["session"]), Prose()
    for age in AGES:
        if age > REAL:
            await aged(log, TENANT, session, age - REAL)
        async with calling(http) as caller:
            for _ in range(REAL):
                await caller.turn(session, prose.say(CHARACTERS))
                await caller.rest()
            await caught_up(caller, log, TENANT, session)
    return session
