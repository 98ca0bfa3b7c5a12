"""The game master's prompt over its budget, so that every step of its ladders applies."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from benchmarks.figure_types import BenchmarkTerms, Figure, require_at_most
from tests.support.sessions.game_master_turns import GameMasterTurn, build_segment
from tests.support.sessions.prompt_assembly import fetch_prompt_texts
from turnlog.projections.prompt.assemble import assemble, plan_prompt

SENTENCE: Final = "The tide comes in and the bell on the pier begins to ring again. "
CALL_COUNT: Final = 200


def build_turn(times: int) -> GameMasterTurn:
    """Build a turn with twelve segments whose texts are `times` times their usual length."""
    text = SENTENCE * 4 * times
    placed = ("core", "ruleset", "world", "entry", "entry_start")
    around = [build_segment(n, scope, text) for n, scope in enumerate(placed, 1)]
    people = [
        build_segment(
            6 + 2 * n + tier, "npc", f"{n}. {text}", f"npc.{n}", tier=tier, priority=priority
        )
        for n, priority in enumerate(("low", "normal", "high"))
        for tier in (0, 1)
    ]
    cue = build_segment(12, "npc", "He nods.", "npc.2", type="npc_cue")
    inputs: dict[str, JsonValue] = {
        "npcs": [{"npc": f"npc.{n}", "tier": 1} for n in range(3)],
        "game_state": text * 4,
        "npc_token_budget": 60 * times,
        "token_budget": 330 * times,
    }
    return GameMasterTurn(segments=(*around, *people, cue), text=text * 8, inputs=inputs)


def prepare_assembly(made: GameMasterTurn) -> Callable[[], object]:
    """Prepare a prompt up to the point where all its texts are at hand."""
    state, call, material = made.session.opened_state, made.call, made.material
    needs = plan_prompt(material, state, call).needs
    texts = fetch_prompt_texts(needs, made.session.events, {})
    return lambda: assemble(plan_prompt(material, state, call), texts)


def measure_processor_time(work: Callable[[], object]) -> float:
    """Return the median milliseconds of processor time of one call."""
    taken: list[float] = []
    for _ in range(CALL_COUNT):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return statistics.median(taken) * 1000


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Measure a short prompt and one of twenty times its length alternately."""
    roomy = build_turn(1)
    roomy = replace(
        roomy, inputs={**roomy.inputs, "npc_token_budget": 9_999, "token_budget": 9_999}
    )
    short, long, free = (
        prepare_assembly(build_turn(1)),
        prepare_assembly(build_turn(20)),
        prepare_assembly(roomy),
    )
    runs = [
        [measure_processor_time(work) for work in (short, long, free)] for _ in range(terms.runs)
    ]
    return (
        Figure(
            name="game-master prompt over budget",
            measured=(
                "processor time of assembling a prompt of 12 segments, all steps of both"
                " ladders taken"
            ),
            unit="ms",
            runs=tuple(run[0] for run in runs),
            target=require_at_most(2),
        ),
        Figure(
            name="a window 20 times as long",
            measured="the same with 20 times the text and 20 times the budget, over the short one",
            unit="x",
            runs=tuple(run[1] / run[0] for run in runs),
            target=require_at_most(20),
        ),
        Figure(
            name="game-master prompt that fits",
            measured="processor time of assembling the same prompt with room for all of it",
            unit="ms",
            runs=tuple(run[2] for run in runs),
        ),
    )
