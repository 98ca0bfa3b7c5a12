"""The reader's place on the page: it is kept when tabs are switched and events arrive."""

from __future__ import annotations

import pytest

from tests.e2e.browser import (
    CHROMIUM,
    Browser,
    build_click_script,
    build_input_script,
    build_texts_script,
)
from tests.services.gateway.gateway_service import RunningGateway

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH"),
]

INPUT = "document.querySelector('.composer textarea')"
RECORD = "document.querySelector('.record > .scroll')"


def open_tab(name: str) -> str:
    return build_click_script(".tabs a", name)


async def open_long_session(stand: RunningGateway, browser: Browser) -> str:
    """Open a session whose record is longer than the window."""
    session = await stand.open_session("assistant")
    for number in range(8):
        await stand.submit_and_answer(session, f"Question {number}", "An answer.")
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    await browser.wait_for(f"{build_texts_script('.why')}.length === 8")
    return session


async def test_tabs_keep_their_scroll_position_and_address(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await open_long_session(stand, browser)
    assert await browser.run_script(f"{RECORD}.scrollTop > 300")
    await browser.run_script(f"{RECORD}.scrollTop = 120")
    # The browser tells of the scrolling with its next frame
    await browser.run_script("new Promise((done) => requestAnimationFrame(() => done(0)))")
    await browser.trigger_click(".turn[data-turn='2'] .why")
    await browser.wait_for("document.querySelector('.proof .verdict') !== null")
    await browser.wait_for(open_tab("Record"))
    await browser.wait_for(f"{RECORD} !== null")
    assert await browser.run_script(f"{RECORD}.scrollTop") == 120
    await browser.wait_for(open_tab("Prompts"))
    await browser.wait_for("document.querySelector('.prompt .verdict') !== null")
    assert await browser.run_script("location.hash") == f"#/sessions/{session}/calls/2.1"


async def test_draft_and_opened_event_stay_while_the_session_continues(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await open_long_session(stand, browser)
    await browser.trigger_click(".event .event-name")
    await browser.wait_for("document.querySelector('.detail pre') !== null")
    await browser.run_script(
        f"{RECORD}.scrollTop = 40, document.querySelector('.detail').id = 'it'"
    )
    await browser.run_script(build_input_script(".composer textarea", "Not sent yet", "input"))
    await browser.run_script(f"{INPUT}.focus()")
    await stand.submit_and_answer(session, "Question 8", "An answer.")
    await browser.wait_for(f"{build_texts_script('.why')}.length === 9")
    assert await browser.run_script("document.querySelector('.detail').id") == "it"
    assert await browser.run_script(f"{RECORD}.scrollTop") == 40
    assert await browser.run_script(f"document.activeElement === {INPUT}")
    await browser.trigger_click(".back")
    await browser.trigger_click(".list .title a")
    await browser.wait_for(f"{INPUT}?.value === 'Not sent yet'")


async def test_focus_stays_in_a_turn_that_is_rerendered(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await open_long_session(stand, browser)
    link = "document.querySelector('.turn[data-turn=\"8\"] .why')"
    await browser.run_script(f"{link}.focus(), {link}.id = 'drawn-before'")
    await stand.http.put(f"/v1/sessions/{session}/turns/8/exclusion")
    await browser.wait_for("document.querySelector('.turn.excluded') !== null")
    assert await browser.run_script("document.getElementById('drawn-before')") is None
    assert await browser.run_script("document.activeElement.textContent") == "call 8.1"


async def test_link_to_a_view_scrolls_to_it_in_a_narrow_window(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant")
    await stand.submit_and_answer(session, "A question", "An answer.")
    await browser.show_as("light", 390, 844)
    await browser.open_page(f"{stand.address}/#/sessions/{session}/calls/1.1")
    await browser.wait_for("document.querySelector('.prompt .verdict') !== null")
    await browser.wait_for("document.querySelector('.tabs').getBoundingClientRect().top < 200")
    await browser.show_as_opened()
