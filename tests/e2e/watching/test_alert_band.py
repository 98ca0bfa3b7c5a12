"""Alerts on the overview: what is raised stands above all else, and leads to its sessions."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from tests.agent_programs.agent_service import AgentService
from tests.e2e.axe_checks import AXE_SCRIPT, COLOUR_RULES, RULES, list_violations, load_axe
from tests.e2e.browser import CHROMIUM, Browser, build_texts_script
from tests.services.gateway.gateway_service import build_alert_service
from turnlog.events.codec import format_rfc3339
from turnlog.events.model.alert_events import (
    AlertCleared,
    AlertEvent,
    AlertRaised,
    AlertState,
    AlertWarned,
    KnownAlertEvent,
    ThresholdState,
)

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH"),
    pytest.mark.slow("it drives a browser on a service of its own"),
]

BAND = build_texts_script(".alerts li")

RULES_SET = [
    {"name": "turns-fail", "measure": "failed_share", "window": "15m", "above": 0.2, "warn": 0.1},
    {"name": "money", "measure": "cost", "window": "1d", "above": 50, "warn": 25},
    {"name": "quiet", "measure": "stopped_sessions", "above": 0},
]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def sessions(platform: AgentService) -> list[str]:
    """Sessions that an alert names, and the rules of alerts."""
    found: list[str] = []
    for _ in range(5):
        session = await platform.open_shipped_session("assistant")
        await platform.complete_turn(session, text="Hello")
        found.append(session)
    answer = await platform.gateway.http.put("/v1/alerts", json={"alerts": RULES_SET})
    assert answer.status_code == 200, answer.text
    return found


async def record(
    platform: AgentService,
    name: str,
    kind: type[AlertRaised | AlertWarned | AlertCleared],
    value: float,
    named: list[str],
) -> None:
    """Record an event of an alert that began two hours ago."""
    service = build_alert_service(platform.gateway.backend, "/turnlog/projector")
    stored = (await service.load_rules(platform.gateway.tenant)).get_rule(name)
    time = format_rfc3339(datetime.now(UTC) - timedelta(hours=2))
    status = {AlertRaised: "raised", AlertWarned: "warning", AlertCleared: "ok"}[kind]
    state = AlertState(
        status=status, since=time, rule=stored.sequence, above=ThresholdState(since=time)
    )
    fields = {"name": name, "rule": stored.rule, "value": value, "sessions": tuple(named)}
    event = kind.model_validate(fields | {"state": state, "reason": "recovered"})

    async def decide(latest: AlertEvent | None) -> KnownAlertEvent:
        del latest
        return event

    await service.record_alert(platform.gateway.tenant, name, decide)


async def test_what_is_raised_is_shown_with_its_value_and_sessions_until_it_is_cleared(
    platform: AgentService, browser: Browser, sessions: list[str]
) -> None:
    await browser.open_page(platform.gateway.address)
    await browser.wait_for("document.querySelectorAll('.tiles a').length >= 9")
    for name in ("money", "turns-fail"):
        await record(platform, name, AlertCleared, 0, [])
    await browser.wait_for(f"{BAND}.length === 0")
    await record(platform, "money", AlertWarned, 31.5, [])
    await record(platform, "turns-fail", AlertRaised, 0.5, sessions)
    await browser.wait_for(f"{BAND}.length === 2")
    raised, warned = await browser.run_script(BAND)
    for word in ("turns-fail", "failed_share 0.5, above 0.2 of the turns in 15m", "2 hr. ago"):
        assert word in raised
    assert "and 2 more" in raised
    assert "cost 31.5, above 25 dollars in 1d" in warned
    await browser.run_script("document.querySelector('.alerts a').click()")
    await browser.wait_for("location.hash.startsWith('#/sessions/')")
    assert sessions[0] in await browser.run_script("location.hash")
    await browser.open_page(f"{platform.gateway.address}/#/")
    await record(platform, "turns-fail", AlertCleared, 0, [])
    await browser.wait_for(f"{BAND}.length === 1")


@pytest.mark.skipif(not AXE_SCRIPT.exists(), reason="npm did not bring axe: see the Makefile")
async def test_band_has_no_violation_of_accessibility_and_fits_a_phone(
    platform: AgentService, browser: Browser, sessions: list[str]
) -> None:
    await record(platform, "money", AlertWarned, 31.5, [])
    await record(platform, "turns-fail", AlertRaised, 0.5, sessions)
    await browser.open_page(platform.gateway.address)
    await browser.wait_for(f"{BAND}.length === 2")
    await load_axe(browser)
    for width, height in ((1400, 900), (390, 844)):
        for scheme, rules in (("light", RULES), ("dark", COLOUR_RULES)):
            await browser.show_as(scheme, width, height)
            assert await list_violations(browser, rules) == []
            ends = "Math.max(...[...document.querySelectorAll('.alerts li')].map((each) => "
            right = await browser.run_script(f"{ends}each.getBoundingClientRect().right))")
            assert right <= width, (width, scheme)
    await browser.show_as_opened()


async def test_band_costs_few_tab_presses_before_the_figures(
    platform: AgentService, browser: Browser, sessions: list[str]
) -> None:
    await record(platform, "money", AlertWarned, 31.5, [])
    await record(platform, "turns-fail", AlertRaised, 0.5, sessions)
    await browser.open_page(platform.gateway.address)
    await browser.wait_for(f"{BAND}.length === 2")
    is_in_tiles = "document.activeElement.matches('.tiles a')"
    presses = 0
    while not await browser.run_script(is_in_tiles):
        await browser.press_key("Tab")
        presses += 1
        assert presses <= 20, json.dumps(presses)
