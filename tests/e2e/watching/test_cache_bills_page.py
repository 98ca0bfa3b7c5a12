"""What caches cost, on the page: the loss of a call, and a ladder that would lose less."""

from __future__ import annotations

import json

import pytest

from tests.agent_programs.agent_service import AgentService
from tests.e2e.browser import Browser, build_texts_script
from tests.support.servers.caching_provider import CachingProvider

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEXT = "What became of the ferry that left Holm at dawn with the mail and forty sheep? " * 60


async def check_strip(platform: AgentService, browser: Browser, session: str) -> None:
    """Require a bar for each call with its budget, its cut and the loss of its cache."""
    calls = (await platform.fetch_json("/v1/growth", session=session))["calls"]
    bars = "[...document.querySelectorAll('.budget .column.linked')].reverse()"
    signs = await browser.run_script(f"{bars}.map((it) => it.innerText.trim().replace(/\\s/g, ''))")
    assert signs == [
        ("▲" if call["optimizations_applied"] else "") + ("●" if call["cache"]["tokens"] else "")
        for call in calls
    ]
    assert {"", "●", "▲●"} <= set(signs)
    lines = await browser.run_script(f"{bars}.map((it) => it.querySelector('.limit') !== null)")
    assert lines == [True] * len(calls)
    (*_, last) = await browser.run_script(f"{bars}.map((it) => it.title)")
    assert f"of {calls[-1]['budget']:,}" in last
    assert "cut by drop_oldest_pairs" in last
    assert "cache broken: " in last


async def check_compared_strips(platform: AgentService, browser: Browser, session: str) -> None:
    """Require each call as it was and as it would be, to one scale, and both bills."""
    ladder = {"drop_oldest_pairs": {"to": "80%"}}
    change = {"sessions": [session], "budget": 9_000, "ladder": ladder}
    answer = await platform.http.post("/v1/what-if", json=change)
    (found,) = (line for line in map(json.loads, answer.text.splitlines()) if "compared" in line)
    strips = await browser.run_script(
        "[...document.querySelectorAll('.compared figure')].map((it) => ({"
        "bill: it.querySelector('figcaption span').innerText,"
        "heights: [...it.querySelectorAll('.stack')].reverse().map((bar) => bar.style.height),"
        "signs: [...it.querySelectorAll('.column')].reverse()"
        ".map((bar) => bar.innerText.trim().replace(/\\s/g, ''))}))"
    )
    largest = max(
        max(prompt["tokens"], prompt["budget"])
        for call in found["compared"]
        for prompt in (call["before"], call["after"])
    )
    for side, strip in zip(("before", "after"), strips, strict=True):
        prompts = [call[side] for call in found["compared"]]
        assert strip["signs"] == [
            ("▲" if prompt["cut_by"] else "") + ("●" if prompt["lost_tokens"] else "")
            for prompt in prompts
        ]
        heights = [float(each.removesuffix("%")) for each in strip["heights"]]
        assert heights == pytest.approx(
            [100 * prompt["tokens"] / largest for prompt in prompts], abs=0.01
        )
        bill = sum(prompt["cached_micro_dollars"] for prompt in prompts)
        assert bill == found[side]["cached_micro_dollars"]
        assert f"${bill / 1_000_000:.6f}".rstrip("0") in strip["bill"]
        lost = sum(prompt["lost_tokens"] > 0 for prompt in prompts)
        assert f"● {lost} caches lost, $" in strip["bill"]
    before, after = (sum("●" in sign for sign in strip["signs"]) for strip in strips)
    assert after < before


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_losses_of_caches_and_a_ladder_with_fewer_are_shown_in_money(
    platform: AgentService, browser: Browser
) -> None:
    provider = CachingProvider()
    platform.provider.choose_behaviour = provider.answer_request
    session = await platform.open_shipped_session("assistant")
    for turn in range(14):
        if turn == 3:
            provider.forget_prompts()
        await platform.complete_turn(session, text=f"{turn:03}: {TEXT}")
    address = platform.gateway.address
    await browser.open_page(f"{address}/#/sessions/{session}/growth")
    await browser.wait_for("document.querySelectorAll('.ledger tbody tr').length === 14")
    await check_strip(platform, browser, session)
    rows = await browser.run_script(build_texts_script(".ledger tbody tr td:last-child"))
    assert rows[2] == ""
    assert rows[3].startswith("the provider did not read its cache, caches lost ")
    assert "up to history, caches lost " in rows[-1]
    (summary,) = await browser.run_script(build_texts_script(".ledger h2"))
    assert "caches lost" in summary
    assert "$" in rows[3]

    await browser.open_page(f"{address}/#/sessions/{session}/what-if?to=80&budget=9000")
    await browser.wait_for("document.querySelector('.exact') !== null")
    (verdict,) = await browser.run_script(build_texts_script(".verdict"))
    assert verdict == "what if a budget of 9,000 tokens · drop_oldest_pairs to 80%"
    facts = await browser.run_script(build_texts_script("dl.facts dd"))
    with_caches, losses = facts[-2:]
    assert "if nothing expires" in with_caches
    assert "\N{MINUS SIGN}" in with_caches
    assert losses.endswith(" tokens")
    await check_compared_strips(platform, browser, session)
