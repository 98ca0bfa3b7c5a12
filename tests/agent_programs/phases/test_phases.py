"""Isolated phases over HTTP: enter, explain, read and replay them."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console, RenderableType

from tests.agent_programs.agent_service import TWO_STEP_ANSWERS, AgentService, answer_with_text
from tests.agent_programs.phases.isolated_phases import CAN_SEE, ORDER
from tests.agent_programs.phases.test_profiles import build_talking_agent
from turnlog.contract.call_payloads import CallList
from turnlog.contract.session_payloads import SessionView
from turnlog.contract.turn_payloads import HistoryView
from turnlog.events.model.session_events import ProfileSwitched
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.prompt.sources.session_material import HIDDEN_PHASE
from turnlog.services.cli.views.session_view import render_conversation, render_session

pytestmark = pytest.mark.asyncio(loop_scope="module")

PHASES: dict[str, Any] = {
    "order": ORDER,
    "can_see": CAN_SEE,
    "carry": {"forward": "summary", "backward": "none"},
    "profiles": {"ideate": "talk", "operate": "agent"},
}


def build_four_phase_blueprint() -> Blueprint:
    """Return an agent of four phases that chats in the first and calls tools in the third."""
    plain = build_talking_agent().model_dump(mode="json", by_alias=True, exclude_unset=True)
    words = "Summary from {from} phase: {summary}"
    layers = {name: layer for name, layer in plain["layers"].items() if name != "persona"}
    layers["carried"] = {"carry": "phase", "text": words}
    calls = plain["calls"]
    calls["converse"]["messages"][0]["system"] = ["rules", "carried"]
    calls["plan"]["messages"][0]["system"].append("carried")
    return build_talking_agent(blueprint="ifoc", layers=layers, calls=calls, phases=PHASES)


async def enter_phase(
    platform: AgentService, session: str, phase: str, carry: str | None = None
) -> None:
    form = {"to": phase} | ({"carry": carry} if carry else {})
    answer = await platform.http.post(f"/v1/sessions/{session}/phase", json=form)
    assert answer.status_code == 200, answer.text


async def visit_three_phases(platform: AgentService) -> str:
    """Run a turn in each of three phases and a second one in the first."""
    session = await platform.open_session(build_four_phase_blueprint())
    await platform.complete_turn(session, answer_with_text("A boat."), text="What could it be?")
    await enter_phase(platform, session, "focus", "we want a boat")
    await platform.complete_turn(session, answer_with_text("A small one."), text="Which boat?")
    await enter_phase(platform, session, "operate")
    await platform.complete_turn(session, *TWO_STEP_ANSWERS, text="Get me a hammer.")
    await enter_phase(platform, session, "ideate")
    await platform.complete_turn(
        session, answer_with_text("A house."), text="What else could it be?"
    )
    return session


def render_lines(screen: RenderableType) -> list[str]:
    console = Console(width=120, file=StringIO(), record=True)
    console.print(screen)
    return [line.strip() for line in console.export_text().splitlines() if line.strip()]


async def test_u18_prompts_include_visible_phases_only_and_why_lists_hidden_ones(
    platform: AgentService,
) -> None:
    session = await visit_three_phases(platform)
    carried = "Summary from ideate phase: we want a boat"
    assert platform.get_request_texts(0) == ["Plan first.", "What could it be?"]
    assert platform.get_request_texts(1) == [
        f"Plan first.\n\n{carried}",
        *("What could it be?", "A boat.", "Which boat?"),
    ]
    assert platform.get_request_texts(2)[1:] == ["Which boat?", "A small one.", "Get me a hammer."]
    assert "carried" not in str(platform.get_request_texts(2)) + str(platform.get_request_texts(6))
    assert platform.get_request_texts(6) == [
        *("Plan first.", "What could it be?", "A boat.", "What else could it be?")
    ]
    visits = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["stays"]
    assert [
        (visit["phase"], visit["turns"], visit["shared"], visit["hidden"]) for visit in visits
    ] == [
        ("ideate", [1], ["ideate"], []),
        ("focus", [2], ["focus", "ideate"], []),
        ("operate", [3], ["focus", "operate"], ["ideate"]),
        ("ideate", [4], ["ideate"], ["focus", "operate"]),
    ]
    assert [visit["carried"] for visit in visits] == [None, carried, None, None]
    explanation = await platform.fetch_json(f"/v1/sessions/{session}/turns/3/why")
    assert explanation["standing"]["shared"] == ["focus", "operate"]
    assert explanation["standing"]["hidden"] == ["ideate"]
    (hidden_part,) = [
        each["part"] for each in explanation["parts"] if each["part"]["rule"] == HIDDEN_PHASE
    ]
    assert (hidden_part["source"]["first"], hidden_part["source"]["last"]) == (1, 1)


async def test_entering_the_current_phase_again_keeps_its_carried_text(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_four_phase_blueprint())
    await platform.complete_turn(session, answer_with_text("A boat."), text="What could it be?")
    await enter_phase(platform, session, "focus", "we want a boat")
    await enter_phase(platform, session, "focus")
    await platform.complete_turn(session, answer_with_text("A small one."), text="Which boat?")
    assert "Summary from ideate phase: we want a boat" in platform.get_request_texts(1)[0]
    visits = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["stays"]
    assert [visit["phase"] for visit in visits] == ["ideate", "focus"]


async def test_u18_entering_a_phase_switches_to_its_profile(platform: AgentService) -> None:
    session = await visit_three_phases(platform)
    switches = await platform.load_events(session, ProfileSwitched)
    assert [(each.before, each.profile, each.reason) for each in switches] == [
        ("talk", "agent", "phase"),
        ("agent", "talk", "phase"),
    ]
    kinds = [each["kind"] for each in await platform.list_calls(session)]
    assert kinds == ["converse"] * 2 + ["plan", "tactic", "tactic", "synthesise", "converse"]


async def test_u18_history_state_and_window_of_each_phase_can_be_read_alone(
    platform: AgentService,
) -> None:
    session = await visit_three_phases(platform)
    session_path = f"/v1/sessions/{session}"
    found = await platform.fetch_json(f"{session_path}/history", phase="focus")
    assert [turn["text"] for turn in found["turns"]] == ["Which boat?"]
    (visit,) = found["stays"]
    state = await platform.fetch_json(session_path, at=visit["last"])
    assert (state["phase"], state["profile"], state["completed"]) == ("focus", "talk", 2)
    window = await platform.fetch_json(f"{session_path}/window", at=visit["last"])
    texts = [each["content"] for each in window["messages"]]
    assert texts[1:] == ["What could it be?", "A boat.", "Which boat?", "A small one."]
    begun = (await platform.fetch_json(f"{session_path}/history", phase="operate"))["stays"][0][
        "first"
    ] + 1
    planning = await platform.fetch_json(f"{session_path}/window", at=begun)
    assert "shop_look" in planning["messages"][0]["content"]
    twice = await platform.fetch_json(f"{session_path}/history", phase="ideate")
    assert [turn["turn"] for turn in twice["turns"]] == [1, 4]
    answer = await platform.http.get(f"{session_path}/history", params={"phase": "nowhere"})
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown-stay")


async def test_cli_shows_phases_plans_and_tools(platform: AgentService) -> None:
    session = await visit_three_phases(platform)
    session_path = f"/v1/sessions/{session}"
    history = HistoryView.model_validate(await platform.fetch_json(f"{session_path}/history"))
    lines = render_lines(render_conversation(history))
    assert "phase operate, after focus · sees focus · not ideate" in lines
    assert "told ▌ Summary from ideate phase: we want a boat" in lines
    at = lines.index("plan ▌ 1. Find a hammer.")
    look = 'shop_look {"what": "hammer"} · answered, 10 characters · 3.2 '
    assert lines[at + 1].startswith(f"▌    {look}")
    assert lines[at + 2] == "▌ 2. Pay for it."
    facts = SessionView.model_validate(await platform.fetch_json(session_path))
    calls = CallList(session=session, sequence=1, calls=())
    session_lines = render_lines(render_session(facts, history, calls))
    assert "phase ideate, after operate · not focus, operate" in session_lines
