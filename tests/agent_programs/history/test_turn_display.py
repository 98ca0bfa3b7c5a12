"""U31: the display form of a turn is stored beside its plain text, which prompts use."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent_programs.agent_service import AgentService, answer_with_plan, answer_with_text

pytestmark = pytest.mark.asyncio(loop_scope="module")

DRAWN = "<p>It is <b>14</b> degrees.</p>"


async def open_displayed_session(platform: AgentService) -> str:
    """Open a session with one turn that has a display form."""
    session = await platform.open_session()
    await platform.complete_turn(
        session, answer_with_plan(), answer_with_text("It is 14 degrees."), text="How warm is it?"
    )
    form = {"text": "<i>How warm is it?</i>", "reply": DRAWN}
    answer = await platform.http.put(f"/v1/sessions/{session}/turns/1/display", json=form)
    assert answer.status_code == 200, answer.text
    return session


async def fetch_first_turn(platform: AgentService, session: str) -> dict[str, Any]:
    turns = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    return dict(turns[0])


async def test_u31_display_form_is_stored_and_windows_include_the_plain_text(
    platform: AgentService,
) -> None:
    session = await open_displayed_session(platform)
    await platform.complete_turn(
        session, answer_with_plan(), answer_with_text("Yes."), text="Sure?"
    )
    turn = await fetch_first_turn(platform, session)
    assert (turn["reply"], turn["display"]["reply"]) == ("It is 14 degrees.", DRAWN)
    assert platform.get_request_texts(2)[1:] == ["How warm is it?", "It is 14 degrees.", "Sure?"]
    assert "<" not in "".join(
        text for number in range(4) for text in platform.get_request_texts(number)
    )


async def test_u31_excluded_turn_leaves_the_window_and_keeps_its_display_form(
    platform: AgentService,
) -> None:
    session = await open_displayed_session(platform)
    await platform.http.put(f"/v1/sessions/{session}/turns/1/exclusion")
    turn = await fetch_first_turn(platform, session)
    assert (turn["excluded"], turn["display"]["reply"]) == (True, DRAWN)
    await platform.complete_turn(
        session, answer_with_plan(), answer_with_text("Yes."), text="Sure?"
    )
    assert platform.get_request_texts(2)[1:] == ["Sure?"]


async def test_u31_redacted_reply_has_no_display_form(platform: AgentService) -> None:
    session = await open_displayed_session(platform)
    form = {"turn": 1, "reason": "a guess", "replacement": "(Withheld.)"}
    await platform.http.post(f"/v1/sessions/{session}/redactions", json=form)
    turn = await fetch_first_turn(platform, session)
    assert (turn["reply"], turn["display"]["reply"]) == ("(Withheld.)", None)
    assert turn["display"]["text"] == "<i>How warm is it?</i>"
    path = f"/v1/sessions/{session}/turns/1/display"
    refused = await platform.http.put(path, json={"reply": DRAWN})
    assert (refused.status_code, refused.json()["code"]) == (409, "reply-withheld")


@pytest.mark.parametrize(
    ("turn", "form", "code"),
    [
        (7, {"reply": DRAWN}, "unknown-turn"),
        (1, {}, "bad-display"),
        (1, {"reply": "\x00"}, "bad-text"),
        (1, {"html": DRAWN}, "invalid"),
    ],
)
async def test_invalid_display_form_is_refused(
    platform: AgentService, turn: int, form: dict[str, str], code: str
) -> None:
    session = await open_displayed_session(platform)
    path = f"/v1/sessions/{session}/turns/{turn}/display"
    refused = await platform.http.put(path, json=form)
    assert refused.json()["code"] == code
