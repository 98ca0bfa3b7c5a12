"""The bill of lost caches of the shipped assistant, beside what a provider charged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from tests.agent_programs.agent_service import AgentService
from tests.support.servers.caching_provider import CachingProvider, count_cacheable

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUESTION = "What became of the ferry that left Holm at dawn with the mail and forty sheep? " * 20


@pytest.fixture(autouse=True)
def gpt(platform: AgentService) -> Iterator[None]:
    usual = platform.worker.contexts
    platform.worker.contexts = replace(usual, default_model="openai/gpt-4o")
    yield
    platform.worker.contexts = usual


@pytest.fixture
def provider() -> CachingProvider:
    return CachingProvider()


async def ask(
    platform: AgentService, provider: CachingProvider, session: str, turns: range
) -> None:
    platform.provider.choose_behaviour = provider.answer_request
    for turn in turns:
        await platform.complete_turn(session, text=f"{turn:03}: {QUESTION}")


async def open_session(platform: AgentService) -> str:
    return await platform.open_shipped_session("assistant")


async def fetch_growth(platform: AgentService, session: str) -> dict[str, Any]:
    last = (await platform.load_recorded_events(session))[-1].sequence
    return dict(await platform.fetch_json("/v1/growth", session=session, min_sequence=last))


def sum_losses(growth: dict[str, Any]) -> int:
    (own,) = growth["groups"]
    return sum(use["cost"]["micro_dollars"] for use in own["caches"])


@pytest.mark.slow("two conversations of a dozen turns")
async def test_bill_is_what_a_provider_charged_more_where_it_lost_its_cache(
    platform: AgentService, provider: CachingProvider
) -> None:
    kept = await open_session(platform)
    await ask(platform, provider, kept, range(1, 13))
    forgetful, forgotten = CachingProvider(), await open_session(platform)
    for begin in (1, 5, 10):
        await ask(platform, forgetful, forgotten, range(begin, {1: 5, 5: 10, 10: 13}[begin]))
        forgetful.forget_prompts()
    assert provider.sent == forgetful.sent
    difference = forgetful.charged - provider.charged
    assert difference > 0
    bills = [sum_losses(await fetch_growth(platform, each)) for each in (kept, forgotten)]
    assert bills[0] == 0
    assert abs(Decimal(bills[1]) - difference) <= difference / 100
    outcomes = [
        call["cache"]["outcome"] for call in (await fetch_growth(platform, forgotten))["calls"]
    ]
    missed = [place for place, outcome in enumerate(outcomes, 1) if outcome == "missed"]
    assert missed == [5, 10]
    assert outcomes[0] == "first"


async def test_change_that_breaks_the_cache_is_named_with_its_price(
    platform: AgentService, provider: CachingProvider
) -> None:
    session = await open_session(platform)
    await ask(platform, provider, session, range(1, 9))
    excluded = await platform.http.put(f"/v1/sessions/{session}/turns/2/exclusion")
    assert excluded.status_code == 200, excluded.text
    await ask(platform, provider, session, range(9, 11))
    growth = await fetch_growth(platform, session)
    broken = growth["calls"][8]
    lost = count_cacheable(provider.sent[7]) - provider.cached[8]
    assert lost > 0
    # A token costs $2.50 a million, and half of it from the cache.
    cost = {"micro_dollars": round(lost * 1.25), "guessed": False, "unpriced_calls": 0}
    assert broken["cache"] == {
        "outcome": "broken",
        "cause": "history",
        "calls": 1,
        "tokens": lost,
        "cost": pytest.approx(cost, abs=1),
    }
    assert growth["calls"][9]["cache"]["outcome"] == "kept"

    (found,) = (await platform.fetch_json("/v1/cache-breaks", session=session))["breaks"]
    assert (found["blueprint"], found["lost"]) == ("assistant", broken["cache"])
    assert (found["session"], found["prefix_call"], found["call"]) == (session, "8.1", "9.1")
    path = f"/v1/sessions/{session}/calls/8.1/diff/9.1"
    assert "turn-excluded" in json.dumps(await platform.fetch_json(path))
