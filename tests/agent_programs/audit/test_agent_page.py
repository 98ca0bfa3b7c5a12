"""Turns of several calls and phases in a real browser, live and at an earlier event."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agent_programs.agent_service import TWO_STEP_ANSWERS, AgentService, answer_with_text
from tests.agent_programs.phases.test_phases import build_four_phase_blueprint, enter_phase
from tests.e2e.browser import CHROMIUM, build_texts_script, run_browser
from turnlog.events.model.tool_events import ToolStarted

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH"),
]


async def test_the_page_shows_plans_tools_and_phases_and_leads_to_hidden_calls(
    platform: AgentService, tmp_path: Path
) -> None:
    session = await platform.open_session(build_four_phase_blueprint())
    address = f"{platform.gateway.address}/#/sessions/{session}"
    async with run_browser(tmp_path) as browser:
        await browser.open_page(address)
        await browser.wait_for(f"{build_texts_script('.threshold')}.join() === 'ideate'")
        await platform.complete_turn(session, answer_with_text("A boat."), text="What could it be?")
        await enter_phase(platform, session, "operate", "a boat")
        carried = "Summary from ideate phase: a boat"
        heading = f"operateafter ideate · sees focus · does not see ideate{carried}"
        await browser.wait_for(
            f"{build_texts_script('.threshold')}.at(-1) === {json.dumps(heading)}"
        )
        await platform.complete_turn(session, *TWO_STEP_ANSWERS)
        await browser.wait_for(f"{build_texts_script('.bubble.reply')}.at(-1) === 'It is yours.'")
        live = await browser.run_script(build_texts_script(".work li"))
        assert [step.partition(".")[0] for step in live] == ["Find a hammer", "Pay for it"]
        assert 'shop_look{"what": "hammer"}answered · 10 characters' in live[0]
        calls = "call 2.1 plan,call 2.2 tactic,call 2.3 tactic,call 2.4 synthesise"
        await browser.wait_for(
            f"{build_texts_script('.turn:last-child .why')}.join() === '{calls}'"
        )
        await browser.trigger_click(".use.answered summary a")
        await browser.wait_for(f"{build_texts_script('.proof .good')}.length")
        assert (await browser.run_script("location.hash")).endswith("/calls/2.2")
        recorded = await platform.load_recorded_events(session)
        begun = next(each.sequence for each in recorded if isinstance(each.event, ToolStarted))
        await browser.open_page(f"{address}/at/{begun}")
        await browser.wait_for(
            f"{build_texts_script('.work .use .faint')}.join() === 'is under way'"
        )
        assert browser.list_complaints() == []
