"""The overview: figures of all sessions, live, each of which leads to its cause."""

from __future__ import annotations

import json

import pytest
import pytest_asyncio

from tests.agent_programs.agent_service import AgentService
from tests.e2e.axe_checks import AXE_SCRIPT, list_violations, load_axe
from tests.e2e.browser import CHROMIUM, Browser, build_texts_script
from tests.support.servers.caching_provider import CachingProvider

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH"),
    pytest.mark.slow("it drives a browser on a service of its own"),
]

TEXT = "What became of the ferry that left Holm at dawn with the mail and forty sheep? " * 60

TILES = build_texts_script(".tiles a")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def crowded(platform: AgentService) -> str:
    """A session whose last prompts were cut, beside one with a short turn."""
    provider = CachingProvider()
    platform.provider.choose_behaviour = provider.answer_request
    session = await platform.open_shipped_session("assistant")
    for turn in range(12):
        await platform.complete_turn(session, text=f"{turn:03}: {TEXT}")
    other = await platform.open_shipped_session("assistant")
    await platform.complete_turn(other, text="Hello")
    return session


async def read_tiles(browser: Browser) -> dict[str, str]:
    """Return the figures of the tiles by their names."""
    tiles = await browser.run_script(TILES)
    return {name: figure for figure, _, name in (each.partition(" ") for each in tiles)}


@pytest.mark.usefixtures("crowded")
async def test_figures_are_those_of_usage_and_growth(
    platform: AgentService, browser: Browser
) -> None:
    await browser.open_page(platform.gateway.address)
    await browser.wait_for(f"{TILES}.length >= 9")
    tiles = await read_tiles(browser)
    (growth,) = (await platform.fetch_json("/v1/growth"))["groups"]
    overview = (await platform.fetch_json("/v1/overview"))["tiles"]
    assert tiles["near their budget"] == str(overview["near_sessions"]) == "1"
    assert tiles["calls cut"] == str(growth["cut_calls"])
    cents = overview["cost_today"]["micro_dollars"] / 1_000_000
    assert tiles["spent today"] == f"${cents:.2f}"
    (nearest, *_) = await browser.run_script(build_texts_script(".panel:nth-of-type(1) td"))
    assert nearest.startswith("000: What became of the ferry")
    (figure, _) = await browser.run_script(build_texts_script(".chart figcaption"))
    assert f"{growth['tokens']:,} in {growth['calls']} calls" in figure


async def test_spike_leads_to_its_cause_in_three_clicks(
    platform: AgentService, browser: Browser, crowded: str
) -> None:
    await browser.open_page(platform.gateway.address)
    await browser.wait_for("document.querySelector('.column .marks .wary') !== null")
    await browser.run_script("document.querySelector('.column:has(.marks .wary)').click()")
    await browser.wait_for("document.querySelectorAll('.list .title a').length === 2")
    (first, _) = await browser.run_script(build_texts_script(".list .id"))
    assert first == crowded, "the dearest session comes first"
    await browser.open_page(f"{platform.gateway.address}/#/")
    await browser.wait_for("document.querySelector('.panel a[href*=\"/diff/\"]') !== null")
    await browser.run_script("document.querySelector('.panel a[href*=\"/diff/\"]').click()")
    await browser.wait_for("document.querySelector('.change') !== null")
    assert crowded in await browser.run_script("location.hash")


async def test_overview_follows_what_happens(
    platform: AgentService, browser: Browser, crowded: str
) -> None:
    await browser.open_page(platform.gateway.address)
    await browser.wait_for(f"{TILES}.length >= 9")
    before = (await browser.run_script(build_texts_script(".chart figcaption")))[0]
    await platform.complete_turn(crowded, text="And now?")
    figures = build_texts_script(".chart figcaption")
    await browser.wait_for(f"{figures}[0] !== {json.dumps(before)}")


@pytest.mark.skipif(not AXE_SCRIPT.exists(), reason="npm did not bring axe: see the Makefile")
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.usefixtures("crowded")
async def test_overview_has_no_violation_of_accessibility(
    platform: AgentService, browser: Browser, theme: str
) -> None:
    await browser.open_page(platform.gateway.address)
    await browser.wait_for(f"{TILES}.length >= 9")
    await browser.run_script(f"document.documentElement.dataset.theme = {json.dumps(theme)}")
    await load_axe(browser)
    assert await list_violations(browser) == []
