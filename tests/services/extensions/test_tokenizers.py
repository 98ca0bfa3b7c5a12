"""Token counts by vocabulary: litellm's files, exact for the models that use them."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import pytest

from tests.support.sessions.prompt_assembly import open_with_blueprint, parse_blueprint
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.token_counters import VocabularyCounter
from turnlog.projections.prompt.assemble import assemble, plan_prompt
from turnlog.projections.prompt.assembly_inputs import PromptCall, PromptTexts
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.testing import claim_turn, submit_turn
from turnlog.services.extensions.plugins import collect_installed
from turnlog.services.extensions.tokenizers import create_cached_counter, load_vocabularies

BLUEPRINT = """
blueprint: counted
version: 1
layers:
  rules: {text: "Be brief, be kind, be exact.", component: instructions}
  who: {text: "You are a clerk.", component: system_prompt}
calls:
  reply:
    messages:
      - system: [rules, who]
      - history: recent
      - user: [input]
    budget: window
history: {recent: {}}
budget:
  window:
    tokens: 40
    counter: {tiktoken: o200k_base}
    ladder: [{drop_oldest_pairs: {history: recent}}]
profiles:
  one: {default: true, call: reply}
"""


@pytest.fixture(scope="module")
def blueprint() -> Blueprint:
    return parse_blueprint(BLUEPRINT)


@pytest.mark.parametrize(
    ("model", "exact"),
    [
        ("openai/gpt-4o", True),
        ("gpt-4o", True),
        ("openai/gpt-4", False),
        ("anthropic/claude-3-5-sonnet", False),
        ("openai/nobody-knows-it", False),
    ],
)
async def test_token_count_is_exact_for_models_that_use_the_vocabulary(
    blueprint: Blueprint, model: str, *, exact: bool
) -> None:
    await load_vocabularies(blueprint)
    known = collect_installed().vocabularies
    session = open_with_blueprint(blueprint, {}).apply_steps(
        submit_turn("What is it?"), claim_turn()
    )
    material = SessionMaterial(blueprint=blueprint, vocabularies=known)
    call = PromptCall(kind="reply", model=model, at="2026-01-01T00:00:00Z")
    plan = plan_prompt(material, session.opened_state, call)
    texts = dict.fromkeys(plan.needs.text_refs, "What is it?")
    manifest = assemble(plan, PromptTexts(by_ref=texts)).manifest
    assert (manifest.counter.name, manifest.counter.exact) == ("o200k_base", exact)


async def test_token_shares_of_message_parts_add_up_to_the_whole_count(
    blueprint: Blueprint,
) -> None:
    await load_vocabularies(blueprint)
    known = collect_installed().vocabularies
    counting = VocabularyCounter("o200k_base", known["o200k_base"], exact=True)
    for texts in (["inter", "nation", "ally"], ["One. ", "Two, ", "three."], ["a"], []):
        shares = counting.count_shares(texts)
        assert sum(shares) == counting.count_tokens("".join(texts))
        assert len(shares) == len(texts)


def test_token_counts_are_cached_without_their_texts() -> None:
    lengths: list[int] = []

    def length(text: str) -> int:
        lengths.append(len(text))
        return len(text)

    count = create_cached_counter(length, max_counts=2)
    long = 1_000_000
    tracemalloc.start()
    for letter in "aab":
        assert count(letter * long) == long
    allocated, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert allocated < long
    assert lengths == [long, long]
    assert [count("c"), count("b" * long), count("a" * long)] == [1, long, long]
    assert lengths == [long, long, 1, long], "the first of three was forgotten"


def test_vocabularies_are_loaded_without_litellm_or_network() -> None:
    program = (
        "import asyncio, socket, sys\n"
        "from turnlog.services.extensions.tokenizers import TiktokenVocabulary\n"
        "socket.socket.connect = lambda *_: sys.exit(2)\n"
        "counts = [TiktokenVocabulary(n).count_tokens('Hello, world!')"
        " for n in ('cl100k_base', 'o200k_base', 'p50k_base')]\n"
        "assert counts == [4, 4, 4], counts\n"
        "sys.exit('litellm' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
