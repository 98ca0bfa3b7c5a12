"""The page for everybody: axe finds nothing, keys reach all of it, a phone is wide enough."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.axe_checks import AXE_SCRIPT, COLOUR_RULES, RULES, list_violations, load_axe
from tests.e2e.browser import CHROMIUM, Browser, build_texts_script
from tests.services.gateway.gateway_service import RunningGateway
from turnlog.services.worker.model.model_types import ModelFailure

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH"),
]

FOCUSED = "document.activeElement.textContent"

VIEWS = {
    "#/": ".overview .tiles a",
    "#/sessions": ".list .title a",
    "#/sessions?q=nothing+like+it": ".list .empty",
    "#/approvals": ".approvals .empty",
    "#/usage": ".usage tfoot",
    "#/usage?group_by=user&user=nobody": ".usage .empty",
    "#/usage?group_by=attribute.language": ".usage option:nth-child(7)",
    "#/uses?source=turn:seen/1": ".usage tbody a",
    "#/uses": ".usage .empty",
    "#/sessions/seen": ".why",
    "#/sessions/seen?family=turn": ".filters button:not([hidden])",
    "#/sessions/seen/events/3": ".detail pre",
    "#/sessions/seen/at/12": ".past strong",
    "#/sessions/seen/calls/3.1": ".proof .verdict",
    "#/sessions/seen/calls/3.1/why": ".facts",
    "#/sessions/seen/calls/1.1/diff/3.1": ".change",
    "#/sessions/seen/what-if?budget=300": ".exact",
    "#/sessions/seen/growth": ".ledger .strip",
    "#/sessions/seen/proof": ".promises",
    "#/sessions/seen/version": ".version .plain",
    "#/sessions/seen/turns/4": ".span .bar",
    "#/sessions/seen/calls/4.1": ".answer .failure",
}
"""The address of each view, and what is there once it is drawn."""


async def fill_session(stand: RunningGateway) -> None:
    """Make a session with turns of every kind that a view shows in its own way."""
    session = await stand.open_session("assistant", session="seen", labels=["travel"])
    for text in ("How far is it to the next town?", "And back?", "By which road?"):
        await stand.submit_and_answer(session, text, "Ten kilometres, along the river. " * 4)
    await stand.http.put(f"/v1/sessions/{session}/turns/1/exclusion")
    body = {"turn": 2, "reason": "it names a person", "replacement": "(withheld)"}
    await stand.http.post(f"/v1/sessions/{session}/redactions", json=body)
    stand.model.scripts.append([ModelFailure("bad_request", "the provider refused it")])
    await stand.http.post(f"/v1/sessions/{session}/turns?wait=30", json={"text": "Is it far?"})


@pytest.mark.slow("it drives a browser on a service of its own")
@pytest.mark.skipif(not AXE_SCRIPT.exists(), reason="npm did not bring axe: see the Makefile")
async def test_axe_reports_no_violations_in_any_view_colour_scheme_or_width(
    stand: RunningGateway, browser: Browser
) -> None:
    await fill_session(stand)
    await browser.open_page(f"{stand.address}/#/sessions")
    await browser.wait_for("document.querySelector('.list .title a') !== null")
    await load_axe(browser)
    found: list[str] = []
    for address, drawn in VIEWS.items():
        await browser.run_script(f"location.hash = '{address}'")
        await browser.wait_for(
            f"location.hash === '{address}' && document.querySelector('{drawn}') !== null"
        )
        for width, height in ((1400, 900), (390, 844)):
            for scheme, rules in (("light", RULES), ("dark", COLOUR_RULES)):
                await browser.show_as(scheme, width, height)
                violations = await list_violations(browser, rules)
                found += [f"{address} {width} {scheme} {each}" for each in violations]
    await browser.show_as_opened()
    assert found == []


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_message_input_is_reached_with_few_tab_presses(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant")
    for number in range(12):
        await stand.submit_and_answer(session, f"Question {number}", "An answer.")
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    await browser.wait_for(f"{build_texts_script('.why')}.length === 12")
    is_typed_into = "document.activeElement.matches('.composer textarea')"
    presses = 0
    while not await browser.run_script(is_typed_into):
        await browser.press_key("Tab")
        presses += 1
        assert presses < 20
    # Past the skip links, the header and one turn; a skip link is nearer
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    await browser.wait_for(f"{build_texts_script('.why')}.length === 12")
    await browser.press_key("Tab")
    assert await browser.run_script(FOCUSED) == "the message input"
    await browser.press_key("Enter", "\r")
    assert await browser.run_script(is_typed_into)


async def test_arrow_keys_move_between_tabs_turns_and_events(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant")
    for number in range(2):
        await stand.submit_and_answer(session, f"Question {number}", "An answer.")
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    await browser.wait_for(f"{build_texts_script('.why')}.length === 2")

    await browser.run_script("document.querySelector('.tabs [aria-selected=true]').focus()")
    await browser.press_key("ArrowRight")
    assert await browser.run_script(FOCUSED) == "Prompts"
    await browser.press_key("End")
    assert await browser.run_script(FOCUSED) == "Version"
    await browser.press_key("Home")
    await browser.press_key("ArrowRight")
    await browser.press_key("Enter", "\r")
    await browser.wait_for("document.querySelector('.proof .verdict') !== null")
    assert await browser.run_script(FOCUSED) == "Prompts"
    panel = "document.querySelector('[role=tabpanel]')"
    named = f"document.getElementById({panel}.getAttribute('aria-labelledby')).textContent"
    assert await browser.run_script(named) == "Prompts"

    await browser.run_script("document.querySelector('.turn[data-turn=\"2\"] .why').focus()")
    await browser.press_key("ArrowUp")
    assert await browser.run_script(FOCUSED) == "call 1.1"
    stops = "[...document.querySelectorAll('.turn .why')].map((each) => each.tabIndex)"
    assert await browser.run_script(stops) == [0, -1]

    await browser.run_script(f"location.hash = '#/sessions/{session}'")
    await browser.wait_for("document.querySelector('.events') !== null")
    await browser.run_script("[...document.querySelectorAll('.events a')].at(-1).focus()")
    await browser.press_key("ArrowUp")
    assert await browser.run_script(FOCUSED) == "context-assembled"
    await browser.press_key("Enter", "\r")
    await browser.wait_for("document.querySelector('.detail pre') !== null")


async def test_screen_reader_receives_a_reply_once_it_is_complete(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant")
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    await browser.wait_for(f"{build_texts_script('.event-name')}.join() === 'session-opened'")
    await browser.run_script(
        "window.spoken = [], new MutationObserver(() =>"
        " spoken.push(document.querySelector('.announcer').textContent))"
        ".observe(document.querySelector('.announcer'), {childList: true}), 0"
    )
    gate = asyncio.Event()
    stand.model.scripts.append(["It grows ", gate, "word by word."])
    await stand.submit_turn(session, "How does it grow?")
    await browser.wait_for(f"{build_texts_script('.bubble.reply')}.join() === 'It grows '")
    gate.set()
    await browser.wait_for("spoken.length === 2")
    assert await browser.run_script("spoken") == [
        "Turn 1 is being answered.",
        "Reply of turn 1: It grows word by word.",
    ]
    assert await browser.run_script("document.querySelector('.turns[aria-live]')") is None
