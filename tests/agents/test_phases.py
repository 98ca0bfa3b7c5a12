"""Isolated phases over HTTP: enter, explain, read and replay them."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console, RenderableType

from tests.agents.doors import CAN_SEE, ORDER
from tests.agents.platform import STEPS, Platform, says
from tests.agents.test_profiles import talker
from turnlog.events.model.session_events import ProfileSwitched
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.prompt.session_material import HIDDEN_PHASE
from turnlog.services.api.call_payloads import CallList
from turnlog.services.api.session_payloads import SessionView
from turnlog.services.api.turn_payloads import HistoryView
from turnlog.services.cli.views.session_view import render_conversation, render_session

pytestmark = pytest.mark.asyncio(loop_scope="module")

PHASES: dict[str, Any] = {
    "order": ORDER,
    "can_see": CAN_SEE,
    "carry": {"forward": "summary", "backward": "none"},
    "profiles": {"ideate": "talk", "operate": "agent"},
}


def ifoc() -> Blueprint:
    """Return an agent of four phases that chats in the first and calls tools in the third."""
    plain = talker().model_dump(mode="json", by_alias=True, exclude_unset=True)
    words = "Summary from {from} phase: {summary}"
    layers = {name: layer for name, layer in plain["layers"].items() if name != "persona"}
    layers["carried"] = {"carry": "phase", "text": words}
    calls = plain["calls"]
    calls["converse"]["messages"][0]["system"] = ["rules", "carried"]
    calls["plan"]["messages"][0]["system"].append("carried")
    return talker(blueprint="ifoc", layers=layers, calls=calls, phases=PHASES)


async def entered(platform: Platform, session: str, phase: str, carry: str | None = None) -> None:
    form = {"to": phase} | ({"carry": carry} if carry else {})
    answer = await platform.http.post(f"/v1/sessions/{session}/phase", json=form)
    assert answer.status_code == 200, answer.text


async def walked(platform: Platform) -> str:
    """Run a turn in each of three phases and a second one in the first."""
    session = await platform.open(ifoc())
    await platform.turn(session, says("A boat."), text="What could it be?")
    await entered(platform, session, "focus", "we want a boat")
    await platform.turn(session, says("A small one."), text="Which boat?")
    await entered(platform, session, "operate")
    await platform.turn(session, *STEPS, text="Get me a hammer.")
    await entered(platform, session, "ideate")
    await platform.turn(session, says("A house."), text="What else could it be?")
    return session


def drawn(screen: RenderableType) -> list[str]:
    console = Console(width=120, file=StringIO(), record=True)
    console.print(screen)
    return [line.strip() for line in console.export_text().splitlines() if line.strip()]


async def test_u18_each_phase_sees_what_it_may_and_its_move_says_what_it_does_not(
    platform: Platform,
) -> None:
    session = await walked(platform)
    carried = "Summary from ideate phase: we want a boat"
    assert platform.said(0) == ["Plan first.", "What could it be?"]
    assert platform.said(1) == [
        f"Plan first.\n\n{carried}",
        *("What could it be?", "A boat.", "Which boat?"),
    ]
    assert platform.said(2)[1:] == ["Which boat?", "A small one.", "Get me a hammer."]
    assert "carried" not in str(platform.said(2)) + str(platform.said(6))
    assert platform.said(6) == [
        *("Plan first.", "What could it be?", "A boat.", "What else could it be?")
    ]
    told = (await platform.get(f"/v1/sessions/{session}/history"))["stays"]
    assert [(stay["phase"], stay["turns"], stay["shared"], stay["hidden"]) for stay in told] == [
        ("ideate", [1], ["ideate"], []),
        ("focus", [2], ["focus", "ideate"], []),
        ("operate", [3], ["focus", "operate"], ["ideate"]),
        ("ideate", [4], ["ideate"], ["focus", "operate"]),
    ]
    assert [stay["carried"] for stay in told] == [None, carried, None, None]
    why = await platform.get(f"/v1/sessions/{session}/turns/3/why")
    assert why["standing"]["shared"] == ["focus", "operate"]
    assert why["standing"]["hidden"] == ["ideate"]
    (gone,) = [each["part"] for each in why["parts"] if each["part"]["rule"] == HIDDEN_PHASE]
    assert (gone["source"]["first"], gone["source"]["last"]) == (1, 1)


async def test_a_phase_that_is_entered_twice_keeps_what_was_carried_into_it(
    platform: Platform,
) -> None:
    session = await platform.open(ifoc())
    await platform.turn(session, says("A boat."), text="What could it be?")
    await entered(platform, session, "focus", "we want a boat")
    await entered(platform, session, "focus")
    await platform.turn(session, says("A small one."), text="Which boat?")
    assert "Summary from ideate phase: we want a boat" in platform.said(1)[0]
    told = (await platform.get(f"/v1/sessions/{session}/history"))["stays"]
    assert [stay["phase"] for stay in told] == ["ideate", "focus"]


async def test_u18_a_phase_brings_its_profile_along(platform: Platform) -> None:
    session = await walked(platform)
    told = await platform.events(session, ProfileSwitched)
    assert [(each.before, each.profile, each.reason) for each in told] == [
        ("talk", "agent", "phase"),
        ("agent", "talk", "phase"),
    ]
    kinds = [each["kind"] for each in await platform.calls(session)]
    assert kinds == ["converse"] * 2 + ["plan", "tactic", "tactic", "synthesise", "converse"]


async def test_u18_any_phase_is_read_alone_with_its_state_and_window(platform: Platform) -> None:
    session = await walked(platform)
    here = f"/v1/sessions/{session}"
    found = await platform.get(f"{here}/history", phase="focus")
    assert [turn["text"] for turn in found["turns"]] == ["Which boat?"]
    (stay,) = found["stays"]
    state = await platform.get(here, at=stay["last"])
    assert (state["phase"], state["profile"], state["completed"]) == ("focus", "talk", 2)
    window = await platform.get(f"{here}/window", at=stay["last"])
    said = [each["content"] for each in window["messages"]]
    assert said[1:] == ["What could it be?", "A boat.", "Which boat?", "A small one."]
    begun = (await platform.get(f"{here}/history", phase="operate"))["stays"][0]["first"] + 1
    planning = await platform.get(f"{here}/window", at=begun)
    assert "shop_look" in planning["messages"][0]["content"]
    twice = await platform.get(f"{here}/history", phase="ideate")
    assert [turn["turn"] for turn in twice["turns"]] == [1, 4]
    answer = await platform.http.get(f"{here}/history", params={"phase": "nowhere"})
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown-stay")


async def test_a_terminal_shows_phases_plans_and_tools(platform: Platform) -> None:
    session = await walked(platform)
    here = f"/v1/sessions/{session}"
    history = HistoryView.model_validate(await platform.get(f"{here}/history"))
    lines = drawn(render_conversation(history))
    assert "phase operate, after focus · sees focus · not ideate" in lines
    assert "told ▌ Summary from ideate phase: we want a boat" in lines
    at = lines.index("plan ▌ 1. Find a hammer.")
    look = 'shop_look {"what": "hammer"} · answered, 10 characters · 3.2 '
    assert lines[at + 1].startswith(f"▌    {look}")
    assert lines[at + 2] == "▌ 2. Pay for it."
    facts = SessionView.model_validate(await platform.get(here))
    calls = CallList(session=session, sequence=1, calls=())
    shown = drawn(render_session(facts, history, calls))
    assert "phase ideate, after operate · not focus, operate" in shown
