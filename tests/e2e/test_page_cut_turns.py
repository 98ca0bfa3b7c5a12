"""Turns that were stopped or failed, as the page shows them."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.browser import CHROMIUM, Browser
from tests.services.gateway.gateway_service import RunningGateway
from turnlog.projections.session.rules.steps.outcome_rules import (
    BROKEN_REPLY_LINE,
    FAILED_TURN_LINE,
    STOPPED_REPLY_LINE,
)
from turnlog.services.worker.model.model_types import ModelFailure

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH"),
    pytest.mark.slow("it drives a browser on a service of its own"),
]

CUT_TEXTS = (
    "[...document.querySelectorAll('.turn')].map((turn) =>"
    " ['.partial', '[title^=\"Later prompts\"]'].map("
    "(each) => turn.querySelector(each)?.textContent ?? null))"
)
"""What is shown of each reply that was cut, and the line that later prompts have."""

MARKUP = "Once <b>upon</b> "


async def test_what_later_prompts_have_of_a_cut_turn_is_shown_live_and_from_the_history(
    stand: RunningGateway, browser: Browser
) -> None:
    session = await stand.open_session("assistant")
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    stand.model.scripts.append([MARKUP, asyncio.Event()])
    await stand.submit_turn(session, "Tell me a story.")
    await browser.wait_for("document.querySelector('.bubble.reply')?.textContent.includes('Once')")
    await browser.wait_for("document.querySelector('.event-name')")
    stopped = await stand.http.post(f"/v1/sessions/{session}/cancel", json={})
    assert stopped.is_success, stopped.text
    await browser.wait_for("document.querySelector('.turn.cancelled')")
    broken = ModelFailure("bad_request", "no such thing")
    for script in ([MARKUP, broken], [broken]):
        stand.model.scripts.append([*script])
        url = f"/v1/sessions/{session}/turns?wait=30"
        failed = await stand.http.post(url, json={"text": "Go on."})
        assert failed.json()["status"] == "failed"
    await browser.wait_for("document.querySelectorAll('.turn.failed').length === 2")
    cut = [[MARKUP, STOPPED_REPLY_LINE], [MARKUP, BROKEN_REPLY_LINE], [None, FAILED_TURN_LINE]]
    assert await browser.run_script(CUT_TEXTS) == cut
    await browser.open_page(f"{stand.address}/#/sessions/{session}")
    await browser.wait_for("document.querySelectorAll('.turn.failed').length === 2")
    assert await browser.run_script(CUT_TEXTS) == cut
    assert await browser.run_script("document.querySelector('.turn b')") is None
    redaction = {"turn": 1, "reason": "on request", "replacement": "(withheld)"}
    await stand.http.post(f"/v1/sessions/{session}/redactions", json=redaction)
    await browser.wait_for("document.querySelector('.turn .redacted')")
    assert await browser.run_script(CUT_TEXTS) == [[None, None], *cut[1:]]
    shown = await browser.run_script("document.querySelector('.turn').textContent")
    assert "(withheld)" in shown
    assert "Once" not in shown
