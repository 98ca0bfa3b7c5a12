"""The page in a real browser: what users see of a session, live and afterwards."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.e2e.browser import CHROMIUM, Browser, build_input_script, build_texts_script
from tests.services.gateway.gateway_service import RunningGateway
from tests.services.gateway.sentence_samples import list_sentences
from turnlog.services.gateway.page_linking import link_scripts
from turnlog.services.gateway.static_ui import read_sources

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH"),
]

LAST_REPLY = "[...document.querySelectorAll('.bubble.reply')].at(-1)?.textContent"
MADE_OF_TEXT = (
    "[...document.querySelectorAll('main img, main b')]"
    ".filter((made) => made.tagName === 'IMG' || made.textContent)"
)
MARKUP = "<img src=/x onerror=alert(1)> <b>bold</b> &amp; ${1}"


async def test_session_list_shows_every_session_and_search_finds_one(
    stand: RunningGateway, browser: Browser
) -> None:
    await stand.open_session("assistant", session="apples")
    await stand.open_session("assistant", session="pears")
    await stand.submit_and_answer("apples", "How are apples stored?", "Cool and dark.")
    await stand.submit_and_answer("pears", "How are pears stored?", "Likewise.")
    await browser.open_page(f"{stand.address}/#/sessions")
    titles = build_texts_script(".list .title a")
    await browser.wait_for(f"{titles}[1] === 'How are apples stored?'")
    cells = "[...document.querySelector('.list tbody tr').cells].map((cell) => cell.textContent)"
    await browser.wait_for(f"{cells}[6]")
    row = await browser.run_script(cells)
    assert row[:3] == ["How are pears stored?pears", "assistant v1", "1"]
    assert row[4:] == ["1%", "15", "$0.000003 (guessed)"]
    await browser.run_script(build_input_script(".search", "APPLES", "input"))
    await browser.wait_for(f"{titles}.join() === 'How are apples stored?'")
    assert await browser.run_script("location.hash") == "#/sessions?q=APPLES"
    await browser.trigger_click(".list .title a")
    await browser.wait_for(f"{LAST_REPLY} === 'Cool and dark.'")
    assert await browser.run_script("location.hash") == "#/sessions/apples"


async def test_first_load_takes_twelve_requests_at_most(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant")
    await stand.submit_and_answer(session, "How are plums stored?", "Likewise.")
    for hash_, shown in (("", ".list tbody tr"), (f"#/sessions/{session}", ".bubble.reply")):
        await browser.open_page(f"{stand.address}/{hash_}")
        await browser.wait_for(f"document.querySelector('{shown}')?.textContent")
        # The page itself is not among them.
        resources = await browser.run_script("performance.getEntriesByType('resource').length")
        assert 3 < resources < 12


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_session_is_renamed_on_the_page_and_by_others(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant", title=MARKUP, labels=["old"])
    path = f"/v1/sessions/{session}"
    await stand.submit_and_answer(session, "How are apples stored?", "Cool and dark.")
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    heading = "document.querySelector('.head h1')?.textContent"
    await browser.wait_for(f"{heading} === {json.dumps(MARKUP)}")
    await browser.trigger_click(".head [data-key$=description]")
    assert await browser.run_script("document.activeElement.value") == MARKUP
    await browser.run_script(build_input_script("dialog [name=title]", "About apples", "input"))
    await browser.run_script(build_input_script("dialog [name=labels]", "fruit\n cold \n", "input"))
    await browser.trigger_click("dialog [type=submit]")
    await browser.wait_for("document.querySelector('dialog') === null")
    await browser.wait_for(f"{heading} === 'About apples'")
    assert await browser.run_script("document.title") == "About apples · Turnlog"
    assert (await stand.fetch_json(path))["labels"] == ["fruit", "cold"]
    labels = build_texts_script(".head .badge.label")
    assert await browser.run_script(labels) == ["fruit", "cold"]
    await stand.http.patch(path, json={"title": None, "labels": []})
    await browser.wait_for(f"{heading} === 'How are apples stored?'")
    assert await browser.run_script(labels) == []


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_reply_and_event_list_grow_while_the_turn_streams(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant")
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    await browser.wait_for(f"{build_texts_script('.event-name')}.join() === 'session-opened'")
    first, second = asyncio.Event(), asyncio.Event()
    stand.model.scripts.append(["Hel", first, "lo!", second])
    await stand.submit_turn(session, "Say hello")
    await browser.wait_for(f"{LAST_REPLY} === 'Hel'")
    assert await browser.run_script(build_texts_script(".turn .badge")) == ["open"]
    first.set()
    await browser.wait_for(f"{LAST_REPLY} === 'Hello!'")
    second.set()
    await browser.wait_for(f"{build_texts_script('.event-name')}.at(-1) === 'turn-completed'")
    await browser.wait_for("document.querySelector('.caret') === null")
    assert await browser.run_script(LAST_REPLY) == "Hello!"


async def test_page_opened_during_a_reply_shows_it_from_its_beginning(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant")
    more = asyncio.Event()
    stand.model.scripts.append(["From the ", "beginning", more, "."])
    await stand.submit_turn(session)
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    await browser.wait_for(f"{LAST_REPLY} === 'From the beginning'")
    more.set()
    await browser.wait_for(f"{LAST_REPLY} === 'From the beginning.'")


async def test_text_entered_on_the_page_becomes_a_turn(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant")
    stand.model.scripts.append(["Noted."])
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    await browser.wait_for("document.querySelector('.composer textarea') !== null")
    await browser.run_script(
        "document.querySelector('.composer textarea').value = 'Write this down'"
    )
    await browser.trigger_click(".composer button[type=submit]")
    await browser.wait_for(f"{LAST_REPLY} === 'Noted.'")
    history = await stand.fetch_json(f"/v1/sessions/{session}/history")
    assert [turn["text"] for turn in history["turns"]] == ["Write this down"]


async def test_resubmission_after_a_lost_answer_creates_one_turn(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant")
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    await browser.wait_for("document.querySelector('.composer textarea') !== null")
    await browser.run_script(
        "(() => { const send = fetch; window.fetch = async (...request) => {"
        " const answer = await send(...request);"
        " if (request[1].method !== 'POST') return answer;"
        " window.fetch = send; throw new TypeError('the answer was lost'); } })()"
    )
    await browser.run_script("document.querySelector('.composer textarea').value = 'Only once'")
    await browser.trigger_click(".composer button[type=submit]")
    fault = "document.querySelector('.composer .fault')"
    await browser.wait_for(f"{fault}.textContent === 'the answer was lost'")
    await browser.trigger_click(".composer button[type=submit]")
    await browser.wait_for(f"{fault}.hidden")
    await browser.wait_for(f"{LAST_REPLY} === 'ok'")
    history = await stand.fetch_json(f"/v1/sessions/{session}/history")
    assert [turn["text"] for turn in history["turns"]] == ["Only once"]


async def test_prompt_of_a_call_is_shown_layer_by_layer_and_verified(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session(
        "assistant", attributes={"instructions": "Prefer ünits 🙂 of SI."}
    )
    await stand.submit_and_answer(session, "How far is it?", "Ten kilometres.")
    await stand.submit_and_answer(session, "And back?", "The same.")
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    await browser.trigger_click(".turn[data-turn='2'] .why")
    await browser.wait_for("document.querySelector('.verdict.good') !== null")
    address = await browser.run_script("location.href")
    assert address.endswith(f"#/sessions/{session}/calls/2.1")
    await browser.open_page(address)
    await browser.wait_for("document.querySelector('.verdict.good') !== null")
    prompt = await stand.fetch_json(f"/v1/sessions/{session}/calls/2.1/prompt")
    messages = await browser.run_script(
        "[...document.querySelectorAll('.message')].map((message) =>"
        " [...message.querySelectorAll('.passage')].map((passage) =>"
        " ['strong', '.text'].map((part) => passage.querySelector(part).textContent)))"
    )
    joined = ["\n\n".join(text for _, text in message) for message in messages]
    assert joined == [message["content"] for message in prompt["messages"]]
    layers = [[layer for layer, _ in message] for message in messages]
    assert layers == [
        ["persona", "identity", "language", "instructions"],
        ["history"],
        ["history"],
        ["input"],
    ]
    assert (
        await browser.run_script("document.querySelector('.digest').textContent")
        == prompt["digest"]
    )


async def test_parts_left_out_of_a_prompt_are_listed_with_their_rule(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant")
    await stand.submit_and_answer(session, "Forget this", "Gladly.")
    await stand.http.put(f"/v1/sessions/{session}/turns/1/exclusion")
    await stand.submit_and_answer(session, "What do you know?", "Nothing of it.")
    await browser.open_page(f"{stand.address}/#/sessions/{session}/calls/2.1")
    await browser.wait_for("document.querySelector('.cut') !== null")
    rows = await browser.run_script(
        "[...document.querySelectorAll('.cut tr')].map((row) =>"
        " [...row.cells].map((cell) => cell.textContent))"
    )
    assert ["history", "absent", "excluded", "turn 1"] in rows


async def test_redacted_reply_is_replaced_on_an_open_page(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant")
    await stand.submit_and_answer(session, "Who was it?", "It was Ms. Example.")
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    await browser.wait_for(f"{LAST_REPLY} === 'It was Ms. Example.'")
    body = {"turn": 1, "reason": "it names a person", "replacement": "(withheld)"}
    await stand.http.post(f"/v1/sessions/{session}/redactions", json=body)
    await browser.wait_for(f"{LAST_REPLY} === '(withheld)'")
    assert "redacted" in await browser.run_script(build_texts_script(".turn .badge"))


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_markup_in_texts_is_never_rendered(stand: RunningGateway, browser: Browser) -> None:
    attributes = {"instructions": MARKUP, "name": MARKUP}
    session = await stand.open_session("assistant", attributes=attributes)
    await stand.submit_and_answer(session, MARKUP, MARKUP)
    everywhere = {
        f"#/sessions/{session}": f"{LAST_REPLY}",
        f"#/sessions/{session}/events/2": "document.querySelector('.detail pre')?.textContent",
        f"#/sessions/{session}/calls/1.1": f"{build_texts_script('.passage .text')}.at(-1)",
        "#/sessions": f"{build_texts_script('.list .title a')}[0]",
    }
    for hash_, selector in everywhere.items():
        await browser.open_page(f"{stand.address}/{hash_}")
        assert "<b>bold</b>" in await browser.wait_for(selector)
        assert await browser.run_script(f"{MADE_OF_TEXT}.length") == 0


async def test_address_of_an_event_opens_it(stand: RunningGateway, browser: Browser) -> None:
    session = await stand.open_session("assistant")
    await stand.submit_and_answer(session, "Hi", "Hello.")
    await browser.open_page(f"{stand.address}/#/sessions/{session}/events/2")
    opened = await browser.wait_for("document.querySelector('.detail pre')?.textContent")
    assert '"type": "turnlog.turn-submitted.v1"' in opened


async def test_event_has_the_same_description_as_on_the_command_line(
    stand: RunningGateway, browser: Browser
) -> None:
    samples = list_sentences()
    await browser.open_page(f"{stand.address}/#/sessions")
    await browser.wait_for("document.querySelector('.sessions') !== null")
    envelopes = json.dumps([envelope for envelope, _ in samples])
    scripts = link_scripts(read_sources(), "events/event_sentences.js")
    described = await browser.run_script(
        f"(() => {{ {scripts} return {envelopes}.map("
        "linked['events/event_sentences.js'].describeEvent); })()"
    )
    assert described == [sentence for _, sentence in samples]


async def test_record_is_verified_on_request(stand: RunningGateway, browser: Browser) -> None:
    session = await stand.open_session("assistant")
    await stand.submit_and_answer(session, "Hi", "Hello.")
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    await browser.trigger_click(".verify")
    await browser.wait_for(
        "document.querySelector('.verify').textContent === '✓ 6 events, 1 prompt'"
    )


@pytest.mark.slow("it drives a browser on a service of its own")
async def test_abandoned_pages_hold_no_connection(stand: RunningGateway, browser: Browser) -> None:
    """A browser has six for one place, and keeps a page that was left for whoever goes back."""
    session = await stand.open_session("assistant")
    for _ in range(7):
        await browser.open_page(f"{stand.address}/#/sessions/{session}")
        await browser.wait_for(f"{build_texts_script('.event-name')}.join() === 'session-opened'")


async def test_page_is_dark_if_the_system_is_dark(stand: RunningGateway, browser: Browser) -> None:
    brightness: dict[str, int] = {}
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        await browser.send_command("Emulation.setEmulatedMedia", features=[feature])
        await browser.open_page(f"{stand.address}/#/sessions")
        await browser.wait_for("document.querySelector('.sessions') !== null")
        ground = await browser.run_script("getComputedStyle(document.body).backgroundColor")
        brightness[scheme] = sum(int(part) for part in ground.strip("rgb()").split(","))
    assert brightness["dark"] < 100
    assert brightness["light"] > 600
