"""The filters of the page: what they show, and that the address keeps them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from tests.e2e.browser import CHROMIUM, Browser, build_input_script, build_texts_script
from tests.services.gateway.gateway_service import RunningGateway
from turnlog.events.model.call_events import AttemptEnded
from turnlog.events.store.memory_log import MemoryLog
from turnlog.services.worker.model.model_types import ModelFailure

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH"),
    pytest.mark.slow("it drives a browser on a service of its own"),
]

LISTED = build_texts_script(".list .id")
EVENTS = (
    "[...document.querySelectorAll('.event:not([hidden]) .event-name')].map((it) => it.textContent)"
)

USAGE_GROUPS = build_texts_script(".usage .group")


def choose_option(label: str, value: str) -> str:
    """Build an expression that chooses in the select of a label, once it offers the value."""
    found = f"[...document.querySelectorAll('{label} option')].find((it) => it.value === '{value}')"
    box = f"document.querySelector('{label}')"
    return f"{found} && ({box}.value = '{value}', {box}.dispatchEvent(new Event('change')), true)"


async def test_sessions_are_filtered_and_back_navigation_keeps_the_filters(
    stand: RunningGateway, browser: Browser
) -> None:
    for session in ("fine", "broken", "closed"):
        await stand.open_session("assistant", session=session)
    await stand.open_session("clerk", session="clerical")
    stand.model.scripts.append([ModelFailure("bad_request", "the provider refused it")])
    await stand.http.post("/v1/sessions/broken/turns?wait=30", json={"text": "Hi"})
    await stand.http.post("/v1/sessions/closed/close", json={})
    await browser.open_page(f"{stand.address}/#/sessions")
    await browser.wait_for(f"{LISTED}.length === 4")

    await browser.trigger_click(".filters [type=checkbox]")
    await browser.wait_for(f"{LISTED}.join() === 'broken'")
    assert await browser.run_script("location.hash") == "#/sessions?failed=true"
    await browser.trigger_click(".list .title a")
    await browser.wait_for("document.querySelector('.badge.failed') !== null")
    await browser.trigger_click(".back")
    await browser.wait_for(f"{LISTED}.join() === 'broken'")

    await browser.run_script("history.back()")
    await browser.wait_for("document.querySelector('.badge.failed') !== null")
    await browser.open_page(f"{stand.address}/#/sessions?blueprint=clerk&open=true")
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


async def test_sessions_nearest_to_their_budget_are_shown_first(
    stand: RunningGateway, browser: Browser
) -> None:
    await stand.open_session("assistant", session="longer", labels=["full"])
    await stand.submit_and_answer("longer", "Tell me everything. " * 900, "That is a lot.")
    await stand.open_session("assistant", session="shorter", labels=["full"])
    await stand.submit_and_answer("shorter", "Hello", "Hello.")
    await stand.open_session("assistant", session="silent", labels=["full"])
    await browser.open_page(f"{stand.address}/#/sessions?label=full")
    await browser.wait_for(f"{LISTED}.join() === 'silent,shorter,longer'")
    await browser.wait_for(choose_option(".filters [name=order]", "near"))
    await browser.wait_for(f"{LISTED}.join() === 'longer,shorter,silent'")
    assert await browser.run_script("location.hash") == "#/sessions?order=near&label=full"
    calls = (await stand.fetch_json("/v1/sessions/longer/calls"))["calls"]
    share = f"{round(calls[0]['tokens'] / calls[0]['budget'] * 100)}%"
    shares = build_texts_script('.list [data-label="of the budget"]')
    assert (await browser.run_script(shares))[::2] == [share, ""]
    await browser.run_script("history.back()")
    await browser.wait_for(f"{LISTED}.join() === 'silent,shorter,longer'")


async def test_label_of_a_session_leads_to_the_sessions_that_have_it(
    stand: RunningGateway, browser: Browser
) -> None:
    await stand.open_session("assistant", session="unlabelled")
    for session, labels in (("trip-1", ["travel"]), ("trip-2", ["travel", "<b>Büro</b>"])):
        await stand.open_session("assistant", session=session, title="Holm", labels=labels)
    await browser.open_page(f"{stand.address}/#/sessions")
    await browser.wait_for(f"{LISTED}.includes('unlabelled')")
    badges = build_texts_script(".list tr:first-child .badge.label")
    assert await browser.run_script(badges) == ["travel", "<b>Büro</b>"]
    await browser.trigger_click(".list tr:first-child .badge.label")
    await browser.wait_for(f"{LISTED}.join() === 'trip-2,trip-1'")
    assert await browser.run_script("location.hash") == "#/sessions?label=travel"
    await browser.trigger_click(".list tr:first-child .title a")
    await browser.wait_for("document.querySelector('.head .badge.label') !== null")
    await browser.trigger_click(".head .badge.label:last-of-type")
    await browser.wait_for(f"{LISTED}.join() === 'trip-2'")


async def test_events_are_filtered_and_opened_within_the_filter(
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


async def wait_for_cost(stand: RunningGateway, session: str) -> int:
    """Wait until the worker of a cancelled turn says what it cost; return that sequence."""
    async with aclosing(stand.backend.log.watch_session(stand.tenant, session)) as events:
        async for each in events:
            if isinstance(each.event, AttemptEnded) and each.event.outcome == "cancelled":
                return each.sequence
    raise AssertionError("a watch has no end")


async def test_usage_is_grouped_and_filtered_by_the_address(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant")
    for user in ("spender", "spender", "saver"):
        stand.model.scripts.append(["An answer."])
        url = f"/v1/sessions/{session}/turns?wait=30"
        answer = await stand.http.post(url, json={"text": "A question.", "user": user})
        assert answer.status_code == 200, answer.text
    stand.model.scripts.append([ModelFailure("bad_request", "the provider refused it")])
    failing = {"text": "Another.", "user": "spender"}
    await stand.http.post(f"/v1/sessions/{session}/turns?wait=30", json=failing)
    asked = asyncio.Event()
    stand.model.scripts.append(["Half an ", asked.set, asyncio.Event()])
    await stand.http.post(f"/v1/sessions/{session}/turns", json=failing)
    await asked.wait()
    await stand.http.post(f"/v1/sessions/{session}/cancel")
    last = await wait_for_cost(stand, session)
    await stand.fetch_json(f"/v1/sessions/{session}/calls", min_sequence=last)
    await browser.open_page(f"{stand.address}/#/sessions")
    await browser.trigger_click("#usage-link")
    await browser.wait_for(f"{USAGE_GROUPS}.at(-1) === 'all'")
    assert await browser.run_script("location.hash") == "#/usage"

    await browser.wait_for(choose_option(".usage select", "user"))
    await browser.wait_for(
        f"{USAGE_GROUPS}.includes('spender') && {USAGE_GROUPS}.includes('saver')"
    )
    assert await browser.run_script("location.hash") == "#/usage?group_by=user"
    await browser.run_script(
        build_input_script(".usage label:nth-of-type(2) input", "spender", "change")
    )
    await browser.wait_for(f"{USAGE_GROUPS}.join() === 'spender,all'")
    assert await browser.run_script("location.hash") == "#/usage?group_by=user&user=spender"
    report = await stand.fetch_json("/v1/usage", group_by="user", user="spender")
    total = report["total"]
    shown = await browser.run_script(build_texts_script(".usage tfoot td"))
    assert shown[:7] == ["4", "2", "1", "1", "0", "0", "0%"]
    assert [int(each.strip("≥ ").replace(",", "")) for each in shown[7:10]] == [
        total["input_tokens"],
        total["cached_tokens"],
        total["output_tokens"],
    ]
    await browser.trigger_click(".usage tbody a")
    await browser.wait_for("document.querySelector('.usage thead th')?.textContent === 'day (UTC)'")
    assert await browser.run_script("location.hash") == "#/usage?group_by=day&user=spender"

    # Times are in the address, and a time before all turns leaves none
    until = ".usage label:nth-of-type(4) input"
    await browser.run_script(build_input_script(until, "2001-01-01T00:00", "change"))
    await browser.wait_for("document.querySelector('.usage .empty') !== null")
    narrowed = await browser.run_script("location.hash")
    assert narrowed == "#/usage?group_by=day&user=spender&until=2001-01-01T00%3A00Z"
    await browser.open_page(f"{stand.address}/{narrowed}")
    await browser.wait_for(f"document.querySelector('{until}')?.value === '2001-01-01T00:00'")
    # What the service refuses is said in words; the browser notes the 422
    await browser.run_script("location.hash = '#/usage?since=yesterday'")
    await browser.wait_for("document.querySelector('.usage .fault')?.textContent.includes('since')")
    browser.events.clear()


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_code_of_a_failure_leads_to_the_sessions_that_have_it(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant")
    stand.model.scripts.append([ModelFailure("bad_request", "the provider refused it")])
    failing = {"text": "And plums?", "user": "unlucky"}
    await stand.http.post(f"/v1/sessions/{session}/turns", params={"wait": 60}, json=failing)
    last = (await stand.fetch_json(f"/v1/sessions/{session}"))["sequence"]
    await stand.fetch_json(f"/v1/sessions/{session}/calls", min_sequence=last)
    await browser.open_page(f"{stand.address}/#/usage?group_by=failure&user=unlucky")
    await browser.wait_for(f"{USAGE_GROUPS}.join() === 'bad_request,all'")
    await browser.trigger_click(".usage tbody a")
    await browser.wait_for("document.querySelector('.only')?.textContent.includes('bad_request')")
    listed = "[...document.querySelectorAll('.list .title a')].map((each) => each.hash)"
    await browser.wait_for(f"{listed}.includes('#/sessions/{session}')")


async def test_list_marks_a_session_with_messages_that_are_no_events(
    stand: RunningGateway, browser: Browser
) -> None:
    await stand.open_session("assistant", session="littered")
    log = stand.backend.log
    assert isinstance(log, MemoryLog)
    place = log.store_message(f"session.{stand.tenant}.littered.turn", b"junk")
    await browser.open_page(f"{stand.address}/#/sessions?q=littered")
    badges = build_texts_script(".list .badge.stray")
    await browser.wait_for(f"{badges}.length === 1")
    assert await browser.run_script(badges) == ["1 stray message"]
    # The log is verified at the end of these tests.
    log.drop_event(place)
