"""Turns of several calls and phases in a real browser, live and at an earlier event."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agent_programs.agent_harness import build_loop_blueprint
from tests.agent_programs.agent_service import (
    TWO_STEP_ANSWERS,
    AgentService,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.agent_programs.approvals.test_approvals import GUARDED_TOOLS
from tests.agent_programs.phases.test_phases import build_four_phase_blueprint, enter_phase
from tests.e2e.browser import CHROMIUM, build_click_script, build_texts_script, run_browser
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


async def test_the_page_asks_for_approvals_and_shows_what_was_decided(
    platform: AgentService, tmp_path: Path
) -> None:
    session = await platform.open_session(build_loop_blueprint(tools=GUARDED_TOOLS))
    payment = answer_with_tool_calls(("shop_pay", {"what": "hammer"}))
    platform.provider.queue_behaviours(payment, answer_with_text("It is yours."))
    async with run_browser(tmp_path) as browser:
        await browser.open_page(f"{platform.gateway.address}/#/sessions/{session}")
        await platform.http.post(f"/v1/sessions/{session}/turns", json={"text": "A hammer."})
        facts = build_texts_script(".work .use summary .faint")
        await browser.wait_for(f"{facts}.join() === 'waits for approval 1'")
        arguments = await browser.run_script(build_texts_script(".work .use pre"))
        assert arguments == ['{"what": "hammer"}']
        assert platform.shop.tool_calls == []
        await browser.wait_for(build_click_script(".work .use button", "Approve"))
        await browser.wait_for(f"{build_texts_script('.bubble.reply')}.at(-1) === 'It is yours.'")
        assert await browser.run_script(build_texts_script(".work .use button")) == []
        assert platform.shop.tool_calls == [("pay", {"what": "hammer"})]
        assert browser.list_complaints() == []
