"""Assembling a long prompt, and one of usual length, with all their texts in memory.

Times are processor time, which other processes on the machine do not affect.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.figure_types import BenchmarkTerms, Figure, require_at_most
from benchmarks.support.random_prose import RandomProse
from benchmarks.support.tutor_calls import TutorCall, build_tutor_call
from tests.support.sessions.session_harness import TENANT, TESTER, SessionHarness
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, compute_history_reach
from turnlog.projections.prompt.assemble import assemble, plan_prompt
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt, PromptCall
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import OpenSession
from turnlog.projections.session.state import SessionState

TURNS: Final = 400
CHARACTERS: Final = 1_000
"""Of a turn's text and its reply together, 250 tokens at four characters each."""
ASSEMBLY_COUNT: Final = 50
LESSON_COUNT: Final = 300
BLUEPRINT: Final[Mapping[str, object]] = {
    "blueprint": "long",
    "version": 1,
    "layers": {"rules": {"text": "Be brief.", "keep": "always"}},
    "calls": {
        "reply": {
            "messages": [{"system": ["rules"]}, {"history": "whole"}, {"user": ["input"]}],
            "budget": "window",
        }
    },
    "history": {"whole": {}},
    "budget": {
        "window": {"tokens": 120_000, "ladder": [{"drop_oldest_pairs": {"history": "whole"}}]}
    },
    "profiles": {"one": {"default": True, "call": "reply"}},
}


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Talk for 400 turns, then assemble the window of the next one again and again."""
    house, material = (
        SessionHarness(),
        SessionMaterial(blueprint=Blueprint.model_validate(BLUEPRINT)),
    )
    state = await _build_session(house, material.blueprint)
    call = PromptCall(kind="reply", model="puppet/one", at="2026-01-01T00:00:00Z")
    await _assemble_prompt(house, material, state, call)
    runs = [await _measure_median(house, material, state, call) for _ in range(terms.runs)]
    lesson = build_tutor_call()
    proved = [_measure_proof(lesson) for _ in range(terms.runs)]
    return (
        Figure(
            name="window of 100,000 tokens",
            measured=f"processor time, p50 of {ASSEMBLY_COUNT} times finding what a call needs, "
            "fetching its texts, "
            f"which are held, and assembling {TURNS} turns of {CHARACTERS} characters",
            unit="ms",
            runs=tuple(runs),
            target=require_at_most(5),
        ),
        Figure(
            name="window of 4,000 tokens",
            measured=f"processor time, p50 of {LESSON_COUNT} times finding what a call of the "
            "tutor needs and "
            "assembling it, compared with the call before",
            unit="ms",
            runs=tuple(assembled for assembled, _ in proved),
        ),
        Figure(
            name="a call of 4,000 tokens, both ways",
            measured="the same and reading the call back by its manifest, its turns being known",
            unit="ms",
            runs=tuple(both for _, both in proved),
            target=require_at_most(0.5),
        ),
    )


def _measure_proof(lesson: TutorCall) -> tuple[float, float]:
    """Return the milliseconds of assembling a call, and of assembling and reading it back."""
    took: list[tuple[float, float]] = []
    for _ in range(LESSON_COUNT):
        began = time.process_time()
        assembled = lesson.assemble_call()
        between = time.process_time()
        assert lesson.read_back_call(assembled).digest == assembled.manifest.digest
        took.append((between - began, time.process_time() - began))
    first, both = zip(*took, strict=True)
    return statistics.median(first) * 1000, statistics.median(both) * 1000


async def _build_session(house: SessionHarness, blueprint: Blueprint) -> SessionState:
    """Give a session of so many answered turns, and one open."""
    ref, prose = await house.blueprints.store_blueprint(TENANT, blueprint), RandomProse()
    await house.sessions.handle(
        TENANT,
        "s",
        OpenSession(blueprint=ref, profile="one", reach=compute_history_reach(blueprint)),
        TESTER,
    )
    house.model.scripts += [[prose.generate_text(CHARACTERS // 2)] for _ in range(TURNS)]
    worker = house.build_worker()
    for _ in range(TURNS):
        await house.run_turn(await house.submit_turn(prose.generate_text(CHARACTERS // 2)), worker)
    await house.submit_turn("What was said?")
    return await house.load_state()


async def _measure_median(
    house: SessionHarness, material: SessionMaterial, state: SessionState, call: PromptCall
) -> float:
    took: list[float] = []
    for _ in range(ASSEMBLY_COUNT):
        began = time.process_time()
        assembled = await _assemble_prompt(house, material, state, call)
        took.append((time.process_time() - began) * 1000)
        assert len(assembled.request.messages) == TURNS * 2 + 2
    return statistics.median(took)


async def _assemble_prompt(
    house: SessionHarness, material: SessionMaterial, state: SessionState, call: PromptCall
) -> AssembledPrompt:
    plan = plan_prompt(material, state, call)
    return assemble(plan, await house.sessions.texts.fetch_texts(TENANT, plan.needs))
