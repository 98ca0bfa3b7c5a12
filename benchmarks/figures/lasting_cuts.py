"""What lasting cuts save: a session at the limit of its window, with `to: 80%` and without.

The cached share is that of the tokens which a prompt repeats of the one before it. Money is that of
the prompts by litellm's table, if the provider has all of these tokens in its cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.figure_types import BenchmarkTerms, Figure
from benchmarks.support.random_prose import RandomProse
from tests.support.sessions.session_harness import TENANT, TESTER, SessionHarness
from turnlog.events.model.attempt_figures import TokenUsage
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import Manifest
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, compute_history_reach
from turnlog.projections.session.commands import OpenSession
from turnlog.services.model_facts.model_prices import (
    PriceTable,
    compute_cost,
    read_shipped_table,
)

TURNS: Final = 300
CHARACTERS: Final = 800
"""Of a turn's text and its reply together."""
MODEL: Final = "openai/gpt-4o"
STEPS: Final[Mapping[str, Mapping[str, str]]] = {"without": {}, "with": {"to": "80%"}}


def build_blueprint(step: Mapping[str, str]) -> Blueprint:
    """Build a blueprint with 8,000 tokens whose ladder has one step."""
    return Blueprint.model_validate(
        {
            "blueprint": "long",
            "version": 1,
            "layers": {"rules": {"text": "Be brief, be kind. " * 40, "keep": "always"}},
            "calls": {
                "reply": {
                    "messages": [{"system": ["rules"]}, {"history": "chat"}, {"user": ["input"]}],
                    "budget": "window",
                }
            },
            "history": {"chat": {}},
            "budget": {"window": {"tokens": 8_000, "ladder": [{"drop_oldest_pairs": step}]}},
            "profiles": {"one": {"default": True, "call": "reply"}},
        }
    )


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Play the same session by both ladders; its figures are the same in every run."""
    del terms
    figures, prices = list[Figure](), read_shipped_table()
    for word, step in STEPS.items():
        manifests = await _play_session(build_blueprint(step))
        prefixes = [each.prefix for each in manifests if each.prefix]
        sent = sum(each.tokens for each in manifests)
        cached = sum(each.tokens for each in prefixes)
        what = f"{TURNS} turns of {CHARACTERS} characters, a budget of 8,000 tokens, {word} `to`"
        values = {
            "cached share of tokens": ("%", 100 * cached / sent),
            "cuts": ("calls", sum(each.ended_by is not None for each in prefixes)),
            f"prompts by {MODEL}": (
                "dollars",
                sum(_compute_dollars(each, prices) for each in manifests),
            ),
            "tokens of a prompt": ("tokens", sent / len(manifests)),
        }
        figures += [
            Figure(name=f"{name}, {word} `to`", measured=what, unit=unit, runs=(value,))
            for name, (unit, value) in values.items()
        ]
    return tuple(figures)


async def _play_session(blueprint: Blueprint) -> list[Manifest]:
    """Return the manifests of a session's prompts."""
    house, prose = SessionHarness(), RandomProse()
    ref = await house.blueprints.store_blueprint(TENANT, blueprint)
    opening = OpenSession(blueprint=ref, profile="one", reach=compute_history_reach(blueprint))
    await house.sessions.handle(TENANT, "s", opening, TESTER)
    house.model.scripts += [[prose.generate_text(CHARACTERS // 2)] for _ in range(TURNS)]
    worker = house.build_worker()
    for _ in range(TURNS):
        await house.run_turn(await house.submit_turn(prose.generate_text(CHARACTERS // 2)), worker)
    events = (each.event for each in house.list_events())
    return [each.manifest for each in events if isinstance(each, ContextAssembled)]


def _compute_dollars(manifest: Manifest, prices: PriceTable) -> float:
    cached = manifest.prefix.tokens if manifest.prefix else 0
    usage = TokenUsage(
        known="estimated", input_tokens=manifest.tokens, output_tokens=0, cached_tokens=cached
    )
    return (compute_cost(MODEL, usage, prices).micro_dollars or 0) / 1_000_000
