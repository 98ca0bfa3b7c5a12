"""A ladder of the shipped assistant under a change, and what the change costs when it is made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from tests.agent_programs.agent_service import AgentService
from tests.support.servers.caching_provider import CachingProvider

pytestmark = pytest.mark.asyncio(loop_scope="module")

TURNS = 34

QUESTION = "What became of the ferry that left Holm at dawn with the mail and forty sheep? " * 40
"""About 800 tokens, of which the window of 8,000 has room for nine turns."""

LASTING = {"drop_oldest_pairs": {"to": "80%"}}


@pytest.fixture(autouse=True)
def gpt(platform: AgentService) -> Iterator[None]:
    usual = platform.worker.contexts
    platform.worker.contexts = replace(usual, default_model="openai/gpt-4o")
    yield
    platform.worker.contexts = usual


async def converse(platform: AgentService, blueprint: str, provider: CachingProvider) -> str:
    """Have the same conversation with a blueprint, and return its session."""
    session = await platform.open_shipped_session(blueprint)
    platform.provider.choose_behaviour = provider.answer_request
    for turn in range(TURNS):
        await platform.complete_turn(session, text=f"{turn:03}: {QUESTION}")
    return session


async def suppose(platform: AgentService, session: str, **change: object) -> dict[str, Any]:
    form = {"sessions": [session], **change}
    answer = await platform.http.post("/v1/what-if", json=form)
    assert answer.status_code == 200, answer.text
    lines = map(json.loads, answer.text.splitlines())
    return {line["line"]: line for line in lines}


@pytest.mark.slow("two conversations of thirty-four turns")
async def test_predicted_bill_of_a_lasting_cut_is_the_one_that_it_has(
    platform: AgentService,
) -> None:
    edits = {"- drop_oldest_pairs: {history: recent}": "- drop_oldest_pairs: {to: 80%}"}
    platform.copy_shipped_blueprint("assistant", "lasting", edits)
    usual, lasting = CachingProvider(), CachingProvider()
    session = await converse(platform, "assistant", usual)
    made = await converse(platform, "lasting", lasting)

    found = (await suppose(platform, session, ladder=LASTING))["session"]
    assert found["again"] == TURNS
    before, after = found["before"], found["after"]
    assert after["cached_tokens"] > 4 * before["cached_tokens"]
    predicted = Decimal(after["cached_micro_dollars"]) / before["cached_micro_dollars"]
    happened = lasting.charged / usual.charged
    assert happened < Decimal("0.8")
    assert abs(predicted - happened) < Decimal("0.05") * happened

    # The prompts under the change are those that the changed blueprint makes.
    same = (await suppose(platform, made, ladder=LASTING))["session"]
    assert same["same"] == TURNS
    assert (same["after"]["tokens"], same["after"]["prefix"]) == (after["tokens"], after["prefix"])

    # A price may depend on the length of a prompt: all together are longer than 200,000 tokens.
    dear = (await suppose(platform, session, model="gemini/gemini-2.5-pro"))["session"]["after"]
    assert dear["tokens"] > 200_000
    assert dear["micro_dollars"] == pytest.approx(dear["tokens"] * 1.25, abs=TURNS)


async def test_ladder_that_a_blueprint_cannot_have_is_refused_with_the_field(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("assistant")
    platform.provider.choose_behaviour = CachingProvider().answer_request
    await platform.complete_turn(session, text="Hello.")

    unknown = {"sessions": [session], "ladder": {"drop_oldest_pair": {"to": "80%"}}}
    answer = await platform.http.post("/v1/what-if", json=unknown)
    assert (answer.status_code, answer.json()["field"]) == (422, "ladder")
    assert "drop_oldest_pairs" in answer.json()["fix"]

    for ladder, field, detail in (
        ({"drop_oldest_pairs": {"to": "8%%"}}, "ladder", "budget.window.ladder.0"),
        ({"drop_oldest_pairs": {"history": "none"}}, "ladder", "there is no history `none`"),
        ({"lower_tier": {"layer": "lore"}}, "ladder.lower_tier", "has the step lower_tier"),
    ):
        found = (await suppose(platform, session, ladder=ladder))["session"]
        (refused,) = found["refused"]
        assert (refused["code"], refused["field"]) == ("invalid", field)
        assert detail in refused["detail"]
