"""Erasing on the page: what would be reached, what is gone at once, and the receipt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from tests.agent_programs.audit.test_page_actions import DIALOG, confirm, open_dialog
from tests.e2e.axe_checks import list_violations, load_axe
from tests.e2e.browser import CHROMIUM, Browser, build_input_script, build_texts_script
from tests.e2e.test_erased_words import SECRET, run_turns
from tests.support.processes.process_host import ProcessHost
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from tests.support.servers.openai_server import OpenAIServer

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH"),
    pytest.mark.slow("it drives a browser on a service of its own"),
]

PREVIEW = f"{DIALOG}?.querySelector('.preview').textContent"


@pytest_asyncio.fixture(loop_scope="session")
async def browser(chromium: Browser) -> Browser:
    """A browser without anything of another test."""
    chromium.events.clear()
    return chromium


async def test_turn_and_then_session_are_erased_on_the_page(
    sealed_up: TurnlogUp, provider: OpenAIServer, browser: Browser
) -> None:
    session = await run_turns(sealed_up, provider, f"{SECRET} one", "two", "three")
    address = str(sealed_up.service.http.base_url)
    await browser.open_page(f"{address}/#/sessions/{session}")
    await browser.wait_for("document.querySelector('.why') !== null")
    await open_dialog(browser, f"{session} turn 1 erasure")
    await browser.wait_for(f"{PREVIEW}.includes('The prompts of 3 calls had it')")
    said = await browser.run_script(PREVIEW)
    assert "1.1, 2.1, 3.1" in said
    assert "Replies that stay may repeat it: turn 2, turn 3" in said
    assert "Not reached: back-ups of the stream KEYS" in said
    await load_axe(browser)
    assert await list_violations(browser) == []
    await browser.run_script(build_input_script("dialog [name=of]", "work", "change"))
    await browser.wait_for(f"{PREVIEW}.includes('what came of turn 1')")
    await browser.run_script(build_input_script("dialog [name=of]", "turn", "change"))
    await confirm(browser)
    fault = "document.querySelector('.field .fault:not([hidden])').textContent"
    assert await browser.run_script(fault) == "Say why: the receipt has the reason."
    await browser.run_script(build_input_script("dialog textarea", "request 4711", "input"))
    await confirm(browser)
    texts = build_texts_script(".bubble.input")
    await browser.wait_for(f"{texts}[0] === '[erased]' && {DIALOG} === null")
    assert SECRET not in await browser.run_script("document.body.textContent")
    await browser.open_page(f"{address}/#/sessions/{session}/proof")
    proof = "document.querySelector('.audit')?.textContent"
    await browser.wait_for(f"{proof}?.includes('erasures')")
    said = await browser.run_script(proof)
    assert "✓ verified" in said
    assert "3 not, since their words were erased" in said
    assert "✓ erased · nobody can open what it reached" in said
    assert ": request 4711" in said
    assert "until generation 1 of the keyring is retired" in said
    await load_axe(browser)
    assert await list_violations(browser) == []
    await open_dialog(browser, f"{session} erasure")
    await browser.wait_for(f"{PREVIEW}.includes('all words')")
    await browser.run_script(build_input_script("dialog textarea", "request 4712", "input"))
    await confirm(browser)
    await browser.wait_for("document.querySelector('.badge.closed')?.textContent === 'erased'")
    await browser.wait_for(f"{proof}?.includes('request 4712')")
    assert await browser.run_script("document.querySelectorAll('[data-key$=erasure]').length") == 0
    assert browser.list_complaints() == []


async def test_plain_session_has_no_button_that_erases(
    host: ProcessHost, browser: Browser, tmp_path: Path
) -> None:
    host = replace(host, folder=tmp_path)
    async with run_turnlog_up(host, variables={"TURNLOG_SEALING": "off"}) as up:
        session = await up.service.open_session("assistant")
        await up.service.run_turn(session, "one")
        await browser.open_page(f"{up.service.http.base_url}/#/sessions/{session}")
        await browser.wait_for("document.querySelector('[data-key$=redaction]') !== null")
        buttons = "document.querySelectorAll('[data-key$=erasure]').length"
        assert await browser.run_script(buttons) == 0
