"""Turns of several calls and phases in a real browser, live and at an earlier event."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agents.platform import STEPS, Platform, says
from tests.agents.test_phases import entered, ifoc
from tests.e2e.browser import CHROMIUM, browsing, texts
from turnlog.events.model.tool_events import ToolStarted

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH"),
]


async def test_the_page_shows_plans_tools_and_phases_and_leads_to_hidden_calls(
    platform: Platform, tmp_path: Path
) -> None:
    session = await platform.open(ifoc())
    address = f"{platform.stand.address}/#/sessions/{session}"
    async with browsing(tmp_path) as browser:
        await browser.open(address)
        await browser.until(f"{texts('.threshold')}.join() === 'ideate'")
        await platform.turn(session, says("A boat."), text="What could it be?")
        await entered(platform, session, "operate", "a boat")
        carried = "Summary from ideate phase: a boat"
        told = f"operateafter ideate · sees focus · does not see ideate{carried}"
        await browser.until(f"{texts('.threshold')}.at(-1) === {json.dumps(told)}")
        await platform.turn(session, *STEPS)
        await browser.until(f"{texts('.bubble.reply')}.at(-1) === 'It is yours.'")
        live = await browser.run(texts(".work li"))
        assert [step.partition(".")[0] for step in live] == ["Find a hammer", "Pay for it"]
        assert 'shop_look{"what": "hammer"}answered · 10 characters' in live[0]
        calls = "call 2.1 plan,call 2.2 tactic,call 2.3 tactic,call 2.4 synthesise"
        await browser.until(f"{texts('.turn:last-child .why')}.join() === '{calls}'")
        await browser.click(".use.answered summary a")
        await browser.until(f"{texts('.proof .good')}.length")
        assert (await browser.run("location.hash")).endswith("/calls/2.2")
        recorded = await platform.recorded(session)
        begun = next(each.sequence for each in recorded if isinstance(each.event, ToolStarted))
        await browser.open(f"{address}/at/{begun}")
        await browser.until(f"{texts('.work .use .faint')}.join() === 'is under way'")
        assert browser.complaints() == []
