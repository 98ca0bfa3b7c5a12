"""Row X6: a dashboard that traces how the context of a shipped blueprint grows, call by call."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.agent_programs.agent_service import AgentService
from tests.e2e.browser import CHROMIUM, Browser, build_texts_script
from tests.support.servers.caching_provider import CachingProvider

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH"),
    pytest.mark.slow("it drives a browser on a service of its own"),
]

TEXT = "What became of the ferry that left Holm at dawn with the mail and forty sheep? " * 60

BUDGET = 8_000
"""Of the shipped assistant."""


def count_shared_messages(one: dict[str, Any], other: dict[str, Any]) -> int:
    """Count the messages with which two prompts begin alike, as they were sent."""
    before, after = (prompt["messages"] for prompt in (one, other))
    pairs = zip(before, after, strict=False)
    return next((at for at, (was, now) in enumerate(pairs) if was != now), len(before))


async def test_x6_growth_of_context_is_traced_per_component_and_turn(
    platform: AgentService, browser: Browser
) -> None:
    platform.provider.choose_behaviour = CachingProvider().answer_request
    session = await platform.open_shipped_session("assistant")
    for turn in range(11):
        await platform.complete_turn(session, text=f"{turn:03}: {TEXT}")
    await platform.list_calls(session)
    growth = await platform.fetch_json("/v1/growth", session=session)
    calls = growth["calls"]
    prompts = [await platform.fetch_prompt(session, call["call"]) for call in calls]
    assert len(calls) == 11

    # Per component and turn, against the budget, as the exact prompts have it.
    for call, prompt in zip(calls, prompts, strict=True):
        parts = [part for part in prompt["manifest"]["parts"] if part["treatment"] != "dropped"]
        for component in ("system_prompt", "history", "query"):
            counted = sum(part["tokens"] for part in parts if part["component"] == component)
            assert call["components"][f"{component}_tokens"] == counted
        assert sum(call["components"].values()) == call["tokens"] <= call["budget"] == BUDGET

    # Cuts: the first turn is missing in the first prompt that has one, and in no earlier one.
    cut = [call["optimizations_applied"] == ["drop_oldest_pairs"] for call in calls]
    has_first = ["000: " in str(prompt["messages"]) for prompt in prompts]
    assert cut == [not each for each in has_first]
    assert cut == sorted(cut)
    assert {False, True} == set(cut)

    # The prefix that a cache could read ends where two prompts, as they were sent, do not agree.
    for (before, after), call in zip(pairwise(prompts), calls[1:], strict=True):
        shared = count_shared_messages(before, after)
        assert (call["prefix_ended_by"] is None) == (shared == len(before["messages"]))
        assert after["manifest"]["prefix"]["messages"] == shared

    # The cost of the session is that of its usage.
    (group,) = growth["groups"]
    facts = await platform.fetch_json("/v1/sessions", q=session)
    assert group["cost"]["micro_dollars"] == facts["sessions"][0]["usage"]["cost"]["micro_dollars"]

    # The page shows all of it, with the forecast.
    forecast = await platform.fetch_json(f"/v1/sessions/{session}/forecast")
    await browser.open_page(f"{platform.gateway.address}/#/sessions/{session}/growth")
    await browser.wait_for("document.querySelector('.budget .foreseen') !== null")
    (words,) = await browser.run_script(build_texts_script(".budget .foreseen"))
    assert words.startswith(forecast["sentence"])
    bars = "[...document.querySelectorAll('.budget .column.linked')].reverse()"
    titles = await browser.run_script(f"{bars}.map((it) => it.title)")
    for call, title in zip(calls, titles, strict=True):
        lines = title.split("\n")
        assert lines[0] == f"call {call['call']}, {call['kind']}"
        shown = {name: tokens for name, tokens in call["components"].items() if tokens}
        assert [
            f"{name.removesuffix('_tokens')} {tokens:,}" for name, tokens in shown.items()
        ] == lines[1 : 1 + len(shown)]
        assert f"of {BUDGET:,}" in lines
        assert ("cut by drop_oldest_pairs" in lines) == bool(call["optimizations_applied"])
        assert any(line.startswith("cache ") for line in lines) == bool(call["cache"]["tokens"])
