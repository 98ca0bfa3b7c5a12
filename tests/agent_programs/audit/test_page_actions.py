"""The buttons of the page: what their dialogs say, what they do, and where the focus is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.agent_programs.agent_service import AgentService, answer_with_text
from tests.agent_programs.children.test_child_progress import submit_to_coordinator
from tests.agent_programs.history.test_memory_commands import build_remembering_agent, run_long_turn
from tests.agent_programs.phases.test_phases import build_four_phase_blueprint
from tests.e2e.axe_checks import AXE_SCRIPT, list_violations, load_axe
from tests.e2e.browser import (
    CHROMIUM,
    Browser,
    build_input_script,
    build_texts_script,
    run_browser,
)
from tests.support.servers.model_behaviours import ModelAnswer

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH"),
]

DIALOG = "document.querySelector('dialog[open]')"
FOCUSED_KEY = "document.activeElement.dataset.key"
REPLY = "[...document.querySelectorAll('.bubble.reply')].at(-1)?.textContent"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with run_browser(tmp_path_factory.mktemp("chromium")) as running:
        yield running


async def open_session(browser: Browser, platform: AgentService, session: str) -> None:
    await browser.open_page(f"{platform.gateway.address}/#/sessions/{session}")
    await browser.wait_for("document.querySelector('.why') !== null")
    browser.events.clear()


async def open_dialog(browser: Browser, key: str) -> None:
    """Open a dialog once the one before it is gone: its end, which comes later than its answer's
    event and than its closing, takes the focus.
    """
    await browser.wait_for("document.querySelector('dialog') === null")
    await browser.run_script(f"document.querySelector('[data-key=\"{key}\"]').focus()")
    await browser.press_key("Enter", "\r")
    await browser.wait_for(f"{DIALOG} !== null")


async def confirm(browser: Browser) -> None:
    await browser.run_script(f"{DIALOG}.querySelector('[type=submit]').click()")


def list_command_keys(browser: Browser) -> list[str]:
    """List the idempotency keys of the commands that the page sent."""
    sent = [event["params"] for event in browser.events]
    requests = [each["request"] for each in sent if "request" in each]
    return [each["headers"]["idempotency-key"] for each in requests if each["method"] != "GET"]


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_exclusion_dialog_previews_its_cost_and_turn_can_be_restored(
    platform: AgentService, browser: Browser
) -> None:
    session = await platform.open_session(
        build_remembering_agent(above_tokens=3_000, keep_messages=2)
    )
    for number in range(1, 5):
        summary = (answer_with_text("Up to two."),) if number == 4 else ()
        await run_long_turn(platform, session, number, *summary)
    await open_session(browser, platform, session)
    key = f"{session} turn 1 exclusion"
    await open_dialog(browser, key)
    preview = "document.querySelector('.preview').textContent"
    await browser.wait_for(f"{preview} !== 'looking …'")
    said = await browser.run_script(preview)
    assert "It undoes 1 summary that tells of this turn" in said
    assert "recent, turns 1 to 2" in said
    assert "“Up to two.”" in said
    assert "Prompts show again turn 2 of recent" in said
    assert "cost $" in said

    await browser.press_key("Escape")
    await browser.wait_for(f"{DIALOG} === null && {FOCUSED_KEY} === {json.dumps(key)}")
    path = f"/v1/sessions/{session}"
    assert len((await platform.fetch_json(f"{path}/summaries"))["summaries"]) == 1

    await open_dialog(browser, key)
    await confirm(browser)
    await browser.wait_for("document.querySelector('.turn.excluded') !== null")
    assert (await platform.fetch_json(f"{path}/summaries"))["summaries"] == []
    await browser.wait_for(f"{DIALOG} === null && {FOCUSED_KEY} === {json.dumps(key)}")
    assert await browser.run_script("document.activeElement.textContent") == "include again"
    await open_dialog(browser, key)
    await confirm(browser)
    await browser.wait_for("document.querySelector('.turn.excluded') === null")
    first, second = list_command_keys(browser)
    assert first != second
    assert browser.list_complaints() == []


async def test_reply_redaction_dialog_requires_a_reason(
    platform: AgentService, browser: Browser
) -> None:
    session = await platform.open_session(build_four_phase_blueprint())
    await platform.complete_turn(session, answer_with_text("It was Ms. Example."), text="Who?")
    await open_session(browser, platform, session)
    await open_dialog(browser, f"{session} turn 1 redaction")
    await confirm(browser)
    fault = "document.querySelector('.field .fault:not([hidden])').textContent"
    assert await browser.run_script(fault) == ("Say why: the record and readers get the reason.")
    assert await browser.run_script("document.activeElement.name") == "reason"
    await browser.run_script(build_input_script("dialog textarea", "it names a person", "input"))
    await browser.run_script(build_input_script("dialog [name=replacement]", "(withheld)", "input"))
    assert (
        await browser.run_script(f"{DIALOG}.querySelector('[name=pattern]').checkVisibility()")
        is False
    )
    await confirm(browser)
    await browser.wait_for(f"{REPLY} === '(withheld)'")
    marked = "document.querySelector('.badge.redacted').title"
    assert await browser.run_script(marked) == "it names a person"
    key = f"{session} turn 1 exclusion"
    await browser.wait_for(f"{DIALOG} === null && {FOCUSED_KEY} === {json.dumps(key)}")
    assert browser.list_complaints() == []


async def test_part_of_a_text_is_redacted_and_gone_from_the_page_at_once(
    platform: AgentService, browser: Browser
) -> None:
    session = await platform.open_session(build_four_phase_blueprint())
    await platform.complete_turn(session, answer_with_text("Hello."), text="Call me Zanzibar.")
    await open_session(browser, platform, session)
    await open_dialog(browser, f"{session} turn 1 redaction")
    await browser.run_script(build_input_script("dialog [name=of]", "text", "change"))
    await browser.run_script(build_input_script("dialog [name=pattern]", "zanzibar", "input"))
    await browser.run_script(build_input_script("dialog textarea", "it is a name", "input"))
    await confirm(browser)
    fault = "document.querySelector('.field:has([name=pattern]) .fault')"
    refusal = await browser.wait_for(f"!{fault}.hidden && {fault}.textContent")
    assert refusal.startswith("the text has nothing that the pattern finds")
    # The browser notes that the request was refused
    browser.events.clear()
    await browser.run_script(build_input_script("dialog [name=pattern]", "(?i)zanzibar", "input"))
    await confirm(browser)
    said = "document.querySelector('.bubble.input').textContent"
    await browser.wait_for(f"{said} === 'Call me [withheld].'")
    marked = "document.querySelector('.badge.redacted')"
    assert await browser.run_script(f"[{marked}.textContent, {marked}.title]") == [
        "text redacted",
        "it is a name",
    ]
    await browser.wait_for("!document.body.textContent.includes('Zanzibar')")
    await browser.open_page(f"{platform.gateway.address}/#/sessions/{session}")
    await browser.wait_for(
        f"document.querySelector('.bubble.input') && {said} === 'Call me [withheld].'"
    )
    assert "Zanzibar" not in await browser.run_script("document.body.textContent")
    assert browser.list_complaints() == []


async def test_phase_and_profile_dialogs_show_refusals_beside_their_fields(
    platform: AgentService, browser: Browser
) -> None:
    session = await platform.open_session(build_four_phase_blueprint())
    await platform.complete_turn(session, answer_with_text("A boat."), text="What could it be?")
    await open_session(browser, platform, session)
    await open_dialog(browser, f"{session} phase")
    await browser.run_script(build_input_script("dialog [name=to]", "nowhere", "input"))
    await confirm(browser)
    fault = "document.querySelector('.field:has([name=to]) .fault')"
    refusal = await browser.wait_for(f"!{fault}.hidden && {fault}.textContent")
    assert refusal.startswith("there is no phase 'nowhere' · one of: ")
    # The browser notes that the request was refused
    browser.events.clear()
    await browser.run_script(build_input_script("dialog [name=to]", "focus", "input"))
    await browser.run_script(build_input_script("dialog [name=carry]", "a boat", "input"))
    await confirm(browser)
    await browser.wait_for(f"{build_texts_script('.threshold strong')}.at(-1) === 'focus'")
    state = await platform.fetch_json(f"/v1/sessions/{session}")
    assert state["phase"] == "focus"

    await open_dialog(browser, f"{session} profile")
    await browser.run_script(build_input_script("dialog [name=model]", "nobody/nothing", "input"))
    await confirm(browser)
    fault = "document.querySelector('.field:has([name=model]) .fault')"
    refusal = await browser.wait_for(f"!{fault}.hidden && {fault}.textContent")
    assert "does not allow model 'nobody/nothing'" in refusal
    assert await browser.run_script("document.activeElement.name") == "model"
    browser.events.clear()


@pytest.mark.slow("it drives a browser on a service of its own")
@pytest.mark.skipif(not AXE_SCRIPT.exists(), reason="npm did not bring axe: see the Makefile")
async def test_axe_reports_no_violations_in_dialogs(
    platform: AgentService, browser: Browser
) -> None:
    session = await platform.open_session(build_four_phase_blueprint())
    await platform.complete_turn(session, answer_with_text("A boat."), text="What could it be?")
    await open_session(browser, platform, session)
    await load_axe(browser)
    found: list[str] = []
    for key in ("turn 1 exclusion", "turn 1 redaction", "phase", "profile"):
        await open_dialog(browser, f"{session} {key}")
        for width, scheme in ((1400, "dark"), (390, "light")):
            await browser.show_as(scheme, width, 844)
            found += [f"{key} {each}" for each in await list_violations(browser)]
        await browser.press_key("Escape")
        await browser.wait_for(f"{DIALOG} === null")
    await browser.show_as_opened()
    assert found == []


CHILD_LINES = "[...document.querySelectorAll('.children .child')].map((each) => each.textContent)"


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_page_shows_what_children_of_a_running_turn_do(
    platform: AgentService, browser: Browser
) -> None:
    gate = asyncio.Event()
    thinker = ModelAnswer(tokens=("A boat ", "is work."), gates={1: gate})
    session = await submit_to_coordinator(platform, thinker)
    await browser.open_page(f"{platform.gateway.address}/#/sessions/{session}")
    await browser.wait_for(f"{CHILD_LINES}.includes('llm_only: writing, 7 characters …')")
    await browser.wait_for(f"{CHILD_LINES}.includes('tool_enabled: answered')")
    link = "document.querySelector('.children .child a').getAttribute('href')"
    assert "/sessions/child-" in await browser.run_script(link)
    gate.set()
    await browser.wait_for(f"{CHILD_LINES}.length === 0 && {REPLY}.includes('Think twice.')")
