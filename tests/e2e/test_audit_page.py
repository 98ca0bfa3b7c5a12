"""The audit in a real browser: why, differences, the past and exports, found from a session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.browser import CHROMIUM, Browser, browsing
from tests.services.gateway.stand import InMemory, Stand, standing

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH")


@pytest_asyncio.fixture
async def stand(fresh_tenant: str, tmp_path: Path) -> AsyncIterator[Stand]:
    async with standing(InMemory(), fresh_tenant, tmp_path) as stand:
        yield stand


@pytest_asyncio.fixture
async def browser(stand: Stand, tmp_path: Path) -> AsyncIterator[Browser]:
    async with browsing(tmp_path) as browser:
        yield browser
        assert browser.complaints() == []
        elsewhere = [url for url in browser.asked_for() if not url.startswith(stand.address)]
        assert [url for url in elsewhere if url != "about:blank"] == []


def tab(name: str) -> str:
    """Click a tab, once it is there."""
    found = f"[...document.querySelectorAll('.tabs a')].find((tab) => tab.textContent === '{name}')"
    return f"{found} && ({found}.click(), true)"


def texts(selector: str) -> str:
    return f"[...document.querySelectorAll('{selector}')].map((each) => each.textContent)"


async def test_an_auditor_finds_everything_from_a_session(stand: Stand, browser: Browser) -> None:
    session = await stand.open("assistant")
    await stand.say(session, "Who was it?", "It was Ms. Example.")
    await stand.say(session, "And who else?", "Nobody.")
    await stand.http.put(f"/v1/sessions/{session}/turns/1/exclusion")
    await stand.say(session, "Where was that?", "Here.")
    await browser.open(f"{stand.address}/#/sessions/{session}")
    await browser.until("document.querySelector('.tabs a') !== null")

    await browser.until(tab("Why"))
    await browser.until("document.querySelector('.facts') !== null")
    assert await browser.run("location.hash") == f"#/sessions/{session}/calls/3.1/why"
    left_out = await browser.run(texts(".origin p"))
    assert any(line.startswith("turn 1 excluded: event 15 turn-excluded") for line in left_out)

    await browser.until(tab("Difference"))
    await browser.until("document.querySelector('.change') !== null")
    assert await browser.run("location.hash") == f"#/sessions/{session}/calls/2.1/diff/3.1"
    changes = await browser.run(texts(".change .sign"))
    assert changes == ["\N{MINUS SIGN}", "+", "~"]
    first = await browser.run("document.querySelector('.change p').textContent")
    assert first.startswith("excluded: event 15 turn-excluded")

    await browser.click(".change p a")
    await browser.until("document.querySelector('.detail pre') !== null")
    assert await browser.run("location.hash") == f"#/sessions/{session}/events/15"
    await browser.click(".detail .links a")
    await browser.until("document.querySelector('.past strong')?.textContent === 'event 15'")
    await browser.until(f"{texts('.bubble')}.length === 4")
    assert await browser.run(texts(".turn .badge")) == ["excluded"]
    await browser.run(
        "(() => { const reach = document.querySelector('.past input'); reach.value = 9;"
        " reach.dispatchEvent(new Event('input')); })()"
    )
    await browser.click(".past .now")
    await browser.until("document.querySelector('.composer') !== null")

    links = await browser.run(
        "[...document.querySelectorAll('.exports a')].map((each) => each.href)"
    )
    assert len(links) == 4
    for link in (each for each in links if "parquet" not in each):
        assert (await stand.http.get(link)).status_code == 200, link


async def test_calls_of_another_session_are_compared_by_typing_its_id(
    stand: Stand, browser: Browser
) -> None:
    one = await stand.open("assistant", attributes={"instructions": "Prefer miles."})
    await stand.open("assistant", session="other", attributes={"instructions": "Prefer metres."})
    for session in (one, "other"):
        await stand.say(session, "How far is it?", "Ten.")
    await browser.open(f"{stand.address}/#/sessions/{one}/calls/1.1/diff/1.1")
    await browser.until("document.querySelector('.sum')?.textContent === 'the very same request'")
    await browser.run(
        "(() => { const box = document.querySelector('.pick input'); box.value = 'other';"
        " box.dispatchEvent(new Event('change')); })()"
    )
    await browser.until(f"{texts('.change .layer')}.join() === 'instructions'")
    assert await browser.run("location.hash") == f"#/sessions/{one}/calls/1.1/diff/1.1?other=other"
