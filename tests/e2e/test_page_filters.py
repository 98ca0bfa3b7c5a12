"""The filters of the page: what they show, and that the address keeps them."""

from __future__ import annotations

import pytest

from tests.e2e.browser import CHROMIUM, Browser, build_input_script, build_texts_script
from tests.services.gateway.gateway_service import RunningGateway
from turnlog.services.worker.model.model_types import ModelFailure

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH"),
]

LISTED = build_texts_script(".list .id")
EVENTS = (
    "[...document.querySelectorAll('.event:not([hidden]) .event-name')].map((it) => it.textContent)"
)


def choose_option(label: str, value: str) -> str:
    """Build an expression that chooses in the select of a label, once it offers the value."""
    found = f"[...document.querySelectorAll('{label} option')].find((it) => it.value === '{value}')"
    box = f"document.querySelector('{label}')"
    return f"{found} && ({box}.value = '{value}', {box}.dispatchEvent(new Event('change')), true)"


async def test_sessions_are_narrowed_and_the_way_back_keeps_that(
    stand: RunningGateway, browser: Browser
) -> None:
    for session in ("fine", "broken", "closed"):
        await stand.open_session("assistant", session=session)
    await stand.open_session("clerk", session="clerical")
    stand.model.scripts.append([ModelFailure("bad_request", "the provider refused it")])
    await stand.http.post("/v1/sessions/broken/turns?wait=30", json={"text": "Hi"})
    await stand.http.post("/v1/sessions/closed/close", json={})
    await browser.open_page(stand.address)
    await browser.wait_for(f"{LISTED}.length === 4")

    await browser.trigger_click(".filters [type=checkbox]")
    await browser.wait_for(f"{LISTED}.join() === 'broken'")
    assert await browser.run_script("location.hash") == "#/?failed=true"
    await browser.trigger_click(".list .title a")
    await browser.wait_for("document.querySelector('.badge.failed') !== null")
    await browser.trigger_click(".back")
    await browser.wait_for(f"{LISTED}.join() === 'broken'")

    await browser.run_script("history.back()")
    await browser.wait_for("document.querySelector('.badge.failed') !== null")
    await browser.open_page(f"{stand.address}/#/?blueprint=clerk&open=true")
    await browser.wait_for(f"{LISTED}.join() === 'clerical'")
    shown = "[...document.querySelectorAll('.more select')].map((each) => each.value)"
    assert await browser.run_script(shown) == ["clerk", "true"]
    await browser.wait_for(choose_option(".more select", "assistant"))
    await browser.wait_for(f"{LISTED}.join() === 'broken,fine'")
    await browser.run_script("history.back()")
    await browser.wait_for(f"{LISTED}.join() === 'clerical'")
    attribute = '.filters [placeholder="name=value"]'
    await browser.run_script(build_input_script(attribute, "desk=d-2", "change"))
    await browser.wait_for("document.querySelector('.list .empty') !== null")
    await browser.run_script(build_input_script(attribute, "desk=d-1", "change"))
    await browser.wait_for(f"{LISTED}.join() === 'clerical'")
    assert "attribute.desk=d-1" in await browser.run_script("location.hash")


async def test_events_are_filtered_and_opened_among_the_filtered(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant")
    await stand.submit_and_answer(session, "How are apples stored?", "Cool and dark.")
    await stand.submit_and_answer(session, "How are pears stored?", "Likewise.")
    address = f"#/sessions/{session}"
    await browser.open_page(f"{stand.address}/{address}?turn=2")
    turn = ["turn-submitted", "attempt-started", "context-assembled", "turn-completed"]
    await browser.wait_for(f"{EVENTS}[0] === 'turn-submitted'")
    assert await browser.run_script(EVENTS) == turn
    await browser.wait_for(choose_option(".filters [name=family]", "turn"))
    await browser.wait_for(f"{EVENTS}.join() === 'turn-submitted,turn-completed'")
    links = "[...document.querySelectorAll('.event:not([hidden]) .event-name')]"
    await browser.run_script(f"{links}.at(-1).focus()")
    await browser.press_key("ArrowUp")
    assert await browser.run_script(f"{links}.indexOf(document.activeElement)") == 0
    await browser.trigger_click(".event:not([hidden]) .event-name")
    await browser.wait_for("document.querySelector('.detail pre') !== null")
    assert await browser.run_script("location.hash") == f"{address}/events/7?family=turn&turn=2"
    await stand.submit_and_answer(session, "And plums?", "The same.")
    await browser.wait_for("document.querySelectorAll('.event').length === 14")
    assert await browser.run_script(EVENTS) == ["turn-submitted", "turn-completed"]
    await browser.run_script("history.back()")
    await browser.wait_for("document.querySelector('.detail') === null")
    await browser.run_script("history.back()")
    await browser.wait_for(f"{EVENTS}.length === 4")
    await browser.run_script(build_input_script(".filters [name=turn]", "", "input"))
    await browser.run_script(build_input_script(".filters [name=text]", "APPLES", "input"))
    await browser.wait_for(f"{EVENTS}.join() === 'turn-submitted'")
    assert await browser.run_script("location.hash") == f"{address}?text=APPLES"
    found = "document.querySelector('.filters [role=status]').textContent"
    assert await browser.run_script(found) == "1 of 14 events"
    await stand.submit_and_answer(session, "And figs?", "Dried.")
    await browser.wait_for(f"{build_texts_script('.why')}.length === 4")
    assert await browser.run_script(EVENTS) == ["turn-submitted"]
