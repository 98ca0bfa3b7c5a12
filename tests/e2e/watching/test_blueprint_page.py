"""A blueprint on the page: its versions side by side, and a usual session of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import pytest_asyncio

from tests.agent_programs.agent_service import AgentService
from tests.e2e.axe_checks import AXE_SCRIPT, list_violations, load_axe
from tests.e2e.browser import CHROMIUM, Browser, build_texts_script
from tests.support.servers.caching_provider import CachingProvider
from turnlog.projections.blueprint.loading.blueprint_source import BLUEPRINT_FILE

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH"),
    pytest.mark.slow("it drives a browser on a service of its own"),
]

TEXT = "What became of the ferry that left Holm at dawn with the mail and forty sheep? " * 60


async def hold_sessions(platform: AgentService, *lengths: int) -> None:
    """Hold a session of each of these many turns, until the read models have it."""
    for turns in lengths:
        session = await platform.open_shipped_session("helper")
        for turn in range(turns):
            await platform.complete_turn(session, text=f"{turn:03}: {TEXT}")
        assert len(await platform.list_calls(session)) == turns


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def versions(platform: AgentService) -> list[dict[str, Any]]:
    """Two versions of the shipped assistant, of which the second has a smaller budget.

    Each had sessions of different lengths.
    """
    platform.provider.choose_behaviour = CachingProvider().answer_request
    written = platform.copy_shipped_blueprint("assistant", "helper") / BLUEPRINT_FILE
    await hold_sessions(platform, 1, 6, 12)
    second = written.read_text().replace("version: 1", "version: 2")
    written.write_text(second.replace("tokens: 8000", "tokens: 5000"))
    await hold_sessions(platform, 9)
    growth = await platform.fetch_json("/v1/growth", blueprint="helper", group_by="version")
    return sorted(growth["groups"], key=lambda group: group["key"]["version"], reverse=True)


async def open_blueprint(platform: AgentService, browser: Browser) -> None:
    await browser.open_page(f"{platform.gateway.address}/#/blueprints/helper")
    await browser.wait_for("document.querySelector('.panel .budget') !== null")


async def test_versions_of_a_blueprint_stand_side_by_side(
    platform: AgentService, browser: Browser, versions: list[dict[str, Any]]
) -> None:
    await browser.open_page(platform.gateway.address)
    link = "document.querySelector('.panel a[href=\"#/blueprints/helper\"]')"
    await browser.wait_for(f"{link} !== null")
    await browser.run_script(f"{link}.click()")
    await browser.wait_for("document.querySelector('.panel .budget') !== null")
    rows = await browser.run_script(
        "[...document.querySelectorAll('.panel:nth-of-type(1) tbody tr')]"
        ".map((row) => [...row.children].map((cell) => cell.innerText.trim()))"
    )
    assert [row[0] for row in rows] == ["helper v2", "helper v1"]
    for row, group in zip(rows, versions, strict=True):
        sizes = group["prompt_sizes"]
        assert row[1:5] == [
            f"{figure:,}" for figure in (group["calls"], *(sizes[each] for each in sizes))
        ]
        assert row[5].startswith("$")
    (cut_of_second, cut_of_first) = [int(row[9].removesuffix("%")) for row in rows]
    assert cut_of_first > 0 < cut_of_second
    assert [row[10] for row in rows] == ["1", "3"]
    assert "otherwise" in rows[1][11]
    captions = await browser.run_script(build_texts_script(".charts figcaption"))
    assert ["helper v2" in captions[0], "helper v1" in captions[1]] == [True, True]
    scale = "[...document.querySelectorAll('.charts .stack')].map((it) => it.style.height)"
    heights = [float(each.removesuffix("%")) for each in await browser.run_script(scale)]
    largest = max(group["prompt_sizes"]["p95"] for group in versions)
    assert heights[0] < 90
    assert heights == pytest.approx(
        [100 * group["prompt_sizes"]["p95"] / largest for group in versions], abs=0.01
    )


@pytest.mark.usefixtures("versions")
async def test_usual_session_is_the_one_in_the_middle_and_leads_to_another_rule(
    platform: AgentService, browser: Browser
) -> None:
    await open_blueprint(platform, browser)
    assert await browser.run_script("document.querySelectorAll('.budget .column').length") == 6
    other = await platform.fetch_json("/v1/sessions", blueprint="helper", order="last")
    tokens = sorted(each["usage"]["total_tokens"] for each in other["sessions"])
    (link,) = await browser.run_script(
        "[...document.querySelectorAll('.panel p.faint a')].map((it) => it.hash)"
    )
    (usual,) = (each for each in other["sessions"] if each["session"] in link)
    assert usual["usage"]["total_tokens"] == tokens[1]


@pytest.mark.skipif(not AXE_SCRIPT.exists(), reason="npm did not bring axe: see the Makefile")
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.usefixtures("versions")
async def test_blueprint_has_no_violation_of_accessibility(
    platform: AgentService, browser: Browser, theme: str
) -> None:
    await open_blueprint(platform, browser)
    await browser.run_script(f"document.documentElement.dataset.theme = {json.dumps(theme)}")
    await load_axe(browser)
    assert await list_violations(browser) == []
