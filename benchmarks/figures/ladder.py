"""The game master's prompt over its budget, so that every step of its ladders applies."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from benchmarks.figure import Figure, Terms, at_most
from tests.parts.tales import Tale, picked
from tests.parts.windows import fetched
from turnlog.projections.prompt.assemble import assemble, find_prompt_needs

SENTENCE: Final = "The tide comes in and the bell on the pier begins to ring again. "
CALLS: Final = 200


def tale(times: int) -> Tale:
    """Build a turn with twelve segments whose texts are `times` times their usual length."""
    text = SENTENCE * 4 * times
    placed = ("core", "ruleset", "world", "entry", "entry_start")
    around = [picked(n, scope, text) for n, scope in enumerate(placed, 1)]
    people = [
        picked(6 + 2 * n + tier, "npc", f"{n}. {text}", f"npc.{n}", tier=tier, priority=priority)
        for n, priority in enumerate(("low", "normal", "high"))
        for tier in (0, 1)
    ]
    cue = picked(12, "npc", "He nods.", "npc.2", type="npc_cue")
    inputs: dict[str, JsonValue] = {
        "npcs": [{"npc": f"npc.{n}", "tier": 1} for n in range(3)],
        "game_state": text * 4,
        "npc_token_budget": 60 * times,
        "token_budget": 330 * times,
    }
    return Tale((*around, *people, cue), text * 8, inputs)


def assembling(made: Tale) -> Callable[[], object]:
    """Prepare a prompt up to the point where all its texts are at hand."""
    state, call, material = made.session.opened_state, made.call, made.material
    texts = fetched(find_prompt_needs(material, state, call), made.session.events, {})
    return lambda: assemble(material, state, call, texts)


def processor_time(work: Callable[[], object]) -> float:
    """Return the median milliseconds of processor time of one call."""
    taken: list[float] = []
    for _ in range(CALLS):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return statistics.median(taken) * 1000


async def measure(terms: Terms) -> Sequence[Figure]:
    """Measure a short prompt and one of twenty times its length alternately."""
    roomy = tale(1)
    roomy = replace(
        roomy, inputs={**roomy.inputs, "npc_token_budget": 9_999, "token_budget": 9_999}
    )
    short, long, free = assembling(tale(1)), assembling(tale(20)), assembling(roomy)
    runs = [[processor_time(work) for work in (short, long, free)] for _ in range(terms.runs)]
    return (
        Figure(
            "game-master prompt over budget",
            "processor time of assembling a prompt of 12 segments, all steps of both ladders taken",
            "ms",
            tuple(run[0] for run in runs),
            at_most(2),
        ),
        Figure(
            "a window 20 times as long",
            "the same with 20 times the text and 20 times the budget, over the short one",
            "x",
            tuple(run[1] / run[0] for run in runs),
            at_most(20),
        ),
        Figure(
            "game-master prompt that fits",
            "processor time of assembling the same prompt with room for all of it",
            "ms",
            tuple(run[2] for run in runs),
        ),
    )
