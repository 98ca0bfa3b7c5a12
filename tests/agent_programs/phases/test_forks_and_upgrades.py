"""Sessions with phases, plans and pinned tools, after a fork or a blueprint upgrade."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.agent_programs.agent_service import TWO_STEP_ANSWERS, AgentService, answer_with_text
from tests.agent_programs.phases.test_phases import (
    build_four_phase_blueprint,
    enter_phase,
    visit_three_phases,
)
from turnlog.events.model.session_events import ProfileSwitched
from turnlog.events.model.tool_events import ToolsSnapshotted
from turnlog.projections.blueprint.loading.blueprint_source import BLUEPRINT_FILE
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, encode_blueprint

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def fork_session(platform: AgentService, session: str, at: int) -> str:
    """Fork a session and return the fork's id."""
    path = f"/v1/sessions/{session}/fork"
    answer = await platform.http.post(path, json={"at": at})
    assert answer.status_code == 201, answer.text
    fork = str(answer.json()["session"])
    platform.opened_sessions.append(fork)
    return fork


async def test_fork_continues_in_its_phase_with_the_pinned_tools(
    platform: AgentService,
) -> None:
    session = await visit_three_phases(platform)
    head = (await platform.load_recorded_events(session))[-1].sequence
    fork = await fork_session(platform, session, head)
    for each in (session, fork):
        await enter_phase(platform, each, "operate", "a house")
        await platform.complete_turn(each, *TWO_STEP_ANSWERS, text="Get me a saw.")
    origin_bodies, fork_bodies = platform.bodies[7:11], platform.bodies[11:]
    assert [body["messages"] for body in origin_bodies] == [
        body["messages"] for body in fork_bodies
    ]
    assert [body.get("tools") for body in origin_bodies] == [
        body.get("tools") for body in fork_bodies
    ]
    assert len(await platform.load_events(fork, ToolsSnapshotted)) == 1
    visits = (await platform.fetch_json(f"/v1/sessions/{fork}/history"))["stays"]
    assert [visit["phase"] for visit in visits] == [
        *("ideate", "focus", "operate", "ideate", "operate")
    ]


async def test_fork_at_an_earlier_phase_excludes_later_phases(
    platform: AgentService,
) -> None:
    session = await visit_three_phases(platform)
    visits = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["stays"]
    fork = await fork_session(platform, session, visits[1]["last"])
    facts = await platform.fetch_json(f"/v1/sessions/{fork}")
    assert (facts["phase"], facts["profile"]) == ("focus", "talk")
    await platform.complete_turn(fork, answer_with_text("A raft."), text="Another boat?")
    assert platform.get_request_texts(7)[0].endswith("Summary from ideate phase: we want a boat")
    assert platform.get_request_texts(7)[-3:] == ["Which boat?", "A small one.", "Another boat?"]
    assert await platform.load_events(fork, ProfileSwitched) == []


async def test_fork_within_a_plan_is_refused(platform: AgentService) -> None:
    session = await visit_three_phases(platform)
    names = await platform.list_event_names(session)
    path = f"/v1/sessions/{session}/fork"
    answer = await platform.http.post(path, json={"at": names.index("step-planned") + 1})
    assert (answer.status_code, answer.json()["code"]) == (409, "turn-open")


def build_second_version(**changes: Any) -> Blueprint:  # noqa: ANN401 - pieces of a blueprint
    """Return the next version of the blueprint."""
    first = build_four_phase_blueprint().model_dump(mode="json", by_alias=True, exclude_unset=True)
    return Blueprint.model_validate(first | {"version": 2} | changes)


async def upgrade_session(platform: AgentService, session: str, kind: Blueprint) -> httpx.Response:
    """Write another blueprint version and request the upgrade of a session."""
    file = platform.folder / kind.blueprint / BLUEPRINT_FILE
    file.write_bytes(encode_blueprint(kind))
    return await platform.http.post(f"/v1/sessions/{session}/blueprint", json={})


async def test_session_is_upgraded_at_phase_entry_and_pins_its_tools_again(
    platform: AgentService,
) -> None:
    session = await visit_three_phases(platform)
    answer = await upgrade_session(platform, session, build_second_version())
    assert (answer.status_code, answer.json()["code"]) == (409, "not-at-a-boundary")
    await enter_phase(platform, session, "operate", "a house")
    seeing = {"ideate": ["ideate"], "operate": ["operate"]}
    apart = {"order": ["ideate", "operate"], "can_see": seeing}
    kind = build_second_version(phases=apart)
    assert (await upgrade_session(platform, session, kind)).status_code == 200
    await platform.complete_turn(session, *TWO_STEP_ANSWERS, text="Get me a saw.")
    carried = "Summary from ideate phase: a house"
    assert platform.get_request_texts(7)[0].endswith(carried)
    assert platform.get_request_texts(7)[1:] == [
        "Get me a hammer.",
        "It is yours.",
        "Get me a saw.",
    ]
    pinned = await platform.load_events(session, ToolsSnapshotted)
    assert len(pinned) == 2
    assert pinned[0] == pinned[1]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"phases": {"order": ["ideate", "focus"]}}, "phase"),
        ({"phases": None}, "phase"),
        ({"profiles": {"talk": {"default": True, "call": "converse"}}}, "profile"),
    ],
)
async def test_upgrade_to_version_without_current_phase_or_profile_is_refused(
    platform: AgentService, changes: dict[str, Any], field: str
) -> None:
    session = await platform.open_session(build_four_phase_blueprint())
    await enter_phase(platform, session, "operate")
    phases = {"phases": {"order": ["ideate", "operate"]}}
    layers = {"rules": {"text": "Be brief."}}
    call = {"messages": [{"system": ["rules"]}, {"user": ["input"]}]}
    plain = {"layers": layers, "calls": {"converse": call}, "history": {}, "tools": None}
    profiles = {"talk": {"call": "converse", "default": True}, "agent": {"call": "converse"}}
    kind = build_second_version(**plain | phases | {"profiles": profiles} | changes)
    answer = await upgrade_session(platform, session, kind)
    assert (answer.status_code, answer.json()["code"]) == (409, "blueprint-does-not-fit")
    assert answer.json()["field"] == field
