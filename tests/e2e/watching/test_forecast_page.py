"""The forecast on the page: the next turns as a pale band, and a sentence with its error."""

from __future__ import annotations

import json

import pytest

from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_text,
)
from tests.e2e.browser import Browser, build_texts_script

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEXT = "What became of the ferry that left Holm at dawn with the mail and forty sheep? " * 50

BARS = "[...document.querySelectorAll('.budget .column')].reverse()"


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_next_turns_follow_the_calls_as_a_band_with_the_error_of_the_forecast(
    platform: AgentService, browser: Browser
) -> None:
    session = await platform.open_shipped_session("assistant")
    for turn in range(4):
        await platform.complete_turn(
            session,
            answer_with_text(f"It is late. {turn}"),
            text=f"{turn:03}: {TEXT[: 900 * (turn + 1)]}",
        )
    await platform.list_calls(session)
    found = await platform.fetch_json(f"/v1/sessions/{session}/forecast")
    assert found["turns"]["p50"] > 1
    await browser.open_page(f"{platform.gateway.address}/#/sessions/{session}/growth")
    await browser.wait_for("document.querySelector('.budget .foreseen') !== null")
    asked = [url for url in browser.list_requested_urls() if url.endswith("/forecast")]
    assert len(asked) == 1, "a forecast may take a second"
    (words,) = await browser.run_script(build_texts_script(".budget .foreseen"))
    assert words.startswith(found["sentence"])
    measured = found["measured"]
    assert f"In a test on {measured['sessions']} sessions such forecasts were off by" in words
    assert f"{round(measured['coverage'] * 100)}% were within the band" in words
    titles = await browser.run_script(f"{BARS}.map((it) => it.title)")
    calls, turns = titles[:4], titles[4:]
    assert all(each.startswith(f"call {turn}.1") for turn, each in enumerate(calls, 1))
    assert turns == [
        f"turn {each['turn']}, forecast\n{each['p50']:,} tokens, {each['p10']:,} to "
        f"{each['p90']:,}\nof 8,000"
        for each in found["next_turns"]
    ]
    parts = (
        f"{BARS}.slice(4).map((it) => [...it.querySelectorAll('i')].map((part) => part.className))"
    )
    assert {json.dumps(each[0]) for each in await browser.run_script(parts)} == {'"forecast"'}
    linked = f"{BARS}.slice(4).some((it) => it.classList.contains('linked'))"
    assert await browser.run_script(linked) is False
