"""Sessions that switch profile and model, by request or by a phase."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent_programs.agent_harness import AgentHarness, build_agent_blueprint
from tests.agent_programs.agent_service import (
    MODEL,
    TWO_STEP_ANSWERS,
    AgentService,
    answer_with_plan,
    answer_with_text,
)
from tests.support.sessions.session_harness import TENANT, TESTER
from turnlog.events.errors import Refused
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.prompt_events import PromptsSnapshotted
from turnlog.events.model.session_events import ProfileSwitched
from turnlog.events.model.tool_events import ToolsSnapshotted
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.session.commands import SwitchProfile

pytestmark = pytest.mark.asyncio(loop_scope="module")

PERSONA: dict[str, Any] = {"persona": {"file": "{provider}.md"}}


def build_talking_agent(**changes: Any) -> Blueprint:  # noqa: ANN401 - pieces of a blueprint
    """Return an agent with a second profile that chats, and a persona for each provider."""
    plain = build_agent_blueprint().model_dump(mode="json", by_alias=True, exclude_unset=True)
    messages = [{"system": ["persona", "rules"]}, {"history": "recent"}, {"user": ["input"]}]
    calls = {**plain["calls"], "converse": {"messages": messages}}
    profiles = {**plain["profiles"], "talk": {"call": "converse"}}
    models = {"allow": ["openai/egret", "hosted_vllm/heron"]}
    return build_agent_blueprint(
        blueprint=changes.pop("blueprint", "talker"),
        **{"layers": plain["layers"] | PERSONA, "calls": calls, "profiles": profiles}
        | {"models": models}
        | changes,
    )


async def open_with_personas(platform: AgentService, kind: Blueprint) -> str:
    """Write the persona files and open a session."""
    folder = platform.folder / kind.blueprint
    folder.mkdir(exist_ok=True)
    for provider in ("openai", "hosted_vllm"):
        (folder / f"{provider}.md").write_text(f"You speak through {provider}.")
    return await platform.open_session(kind)


async def switch_profile(platform: AgentService, session: str, **form: str) -> int:
    """Request another profile or model and return the status."""
    answer = await platform.http.post(f"/v1/sessions/{session}/profile", json=form)
    return answer.status_code


async def test_u30_profile_and_model_switch_within_a_session_and_all_used_ones_are_listed(
    platform: AgentService,
) -> None:
    session = await open_with_personas(platform, build_talking_agent())
    await platform.complete_turn(session, *TWO_STEP_ANSWERS)
    assert await switch_profile(platform, session, profile="talk") == 200
    await platform.complete_turn(session, answer_with_text("I am."))
    assert await switch_profile(platform, session, model="openai/egret") == 200
    await platform.complete_turn(session, answer_with_text("Still."))
    calls = await platform.load_events(session, ContextAssembled)
    assert [(each.profile, each.model) for each in calls] == [
        *[("agent", MODEL)] * 4,
        ("talk", MODEL),
        ("talk", "openai/egret"),
    ]
    assert [body["model"] for body in platform.bodies] == [*["heron"] * 5, "egret"]
    switches = await platform.load_events(session, ProfileSwitched)
    assert [(each.before, each.profile, each.model, each.reason) for each in switches] == [
        ("agent", "talk", None, "asked"),
        ("talk", "talk", "openai/egret", "asked"),
    ]
    session_view = await platform.fetch_json(f"/v1/sessions/{session}")
    assert (session_view["profile"], session_view["model"]) == ("talk", "openai/egret")
    last = (await platform.load_recorded_events(session))[-1].sequence
    used = await platform.fetch_json(f"/v1/sessions/{session}/calls", min_sequence=last)
    assert used["models"] == [MODEL, "openai/egret"]
    assert used["profiles"] == ["agent", "talk"]


async def test_diff_attributes_prompt_changes_to_profile_switched_event(
    platform: AgentService,
) -> None:
    session = await open_with_personas(platform, build_talking_agent())
    await platform.complete_turn(session, answer_with_plan(), answer_with_text("One."))
    await switch_profile(platform, session, profile="talk")
    await platform.complete_turn(session, answer_with_text("Two."))
    found = await platform.fetch_json(f"/v1/sessions/{session}/calls/1.2/diff/2.1")
    (because,) = [each["because"] for each in found["changes"] if each["layer"] == "persona"]
    assert [(each["what"], [by["event"] for by in each["by"]]) for each in because] == [
        ("profile", ["profile-switched"])
    ]


async def test_model_of_another_provider_uses_its_own_prompts_from_the_same_pin(
    platform: AgentService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", platform.provider.url)
    session = await open_with_personas(platform, build_talking_agent())
    await switch_profile(platform, session, profile="talk")
    await platform.complete_turn(session, answer_with_text("One."))
    await switch_profile(platform, session, model="hosted_vllm/heron")
    await platform.complete_turn(session, answer_with_text("Two."))
    (pinned,) = await platform.load_events(session, PromptsSnapshotted)
    assert (pinned.provider, "hosted_vllm" in pinned.others) == ("openai", True)
    spoken = [platform.get_request_texts(number)[0].splitlines()[0] for number in (0, 1)]
    assert spoken == ["You speak through openai.", "You speak through hosted_vllm."]
    window = await platform.fetch_json(f"/v1/sessions/{session}/window")
    assert window["model"] == "hosted_vllm/heron"


async def test_tools_are_pinned_when_a_profile_first_needs_them(platform: AgentService) -> None:
    session = await open_with_personas(platform, build_talking_agent(blueprint="quiet"))
    await switch_profile(platform, session, profile="talk")
    await platform.complete_turn(session, answer_with_text("Hello."))
    assert await platform.load_events(session, ToolsSnapshotted) == []
    await switch_profile(platform, session, profile="agent")
    await platform.complete_turn(session, answer_with_plan(), answer_with_text("Done."))
    assert [each.profile for each in await platform.load_events(session, ToolsSnapshotted)] == [
        "agent"
    ]


async def test_switch_to_the_current_profile_appends_no_event(platform: AgentService) -> None:
    session = await open_with_personas(platform, build_talking_agent())
    assert await switch_profile(platform, session, profile="nobody") == 422
    assert await switch_profile(platform, session, model="http://elsewhere/x") == 422
    assert await switch_profile(platform, session, profile="agent") == 200
    assert await platform.load_events(session, ProfileSwitched) == []


@pytest.mark.parametrize(
    ("model", "allow"),
    [
        ("openai/heron", []),
        ("openai/egret", ["openai/egret-mini"]),
        ("openai/egret-mini", ["openai/egret"]),
        ("OpenAI/egret", ["openai/egret"]),
        ("scripted/demo", ["openai/egret"]),
    ],
)
async def test_model_missing_from_allow_list_is_refused_and_fix_names_the_list(
    platform: AgentService, model: str, allow: list[str]
) -> None:
    session = await open_with_personas(platform, build_talking_agent(models={"allow": allow}))
    answer = await platform.http.post(f"/v1/sessions/{session}/profile", json={"model": model})
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "model-not-allowed")
    assert problem["field"] == "model"
    assert problem["fix"] == (
        f"use one of: {', '.join(['default', *allow])};"
        " the blueprint adds others by `models: {allow: [...]}`"
    )
    assert await platform.load_events(session, ProfileSwitched) == []


async def test_model_of_any_profile_is_allowed_with_another_profile(platform: AgentService) -> None:
    plain = build_talking_agent().model_dump(mode="json", by_alias=True, exclude_unset=True)
    profiles = plain["profiles"]
    profiles["talk"]["model"] = "openai/egret"
    session = await open_with_personas(platform, build_talking_agent(models={}, profiles=profiles))
    for model in ("openai/egret", "default"):
        assert await switch_profile(platform, session, model=model) == 200
    assert await switch_profile(platform, session, model="hosted_vllm/heron") == 422


async def test_empty_profile_switch_is_refused_and_keeps_the_requested_model(
    platform: AgentService,
) -> None:
    session = await open_with_personas(platform, build_talking_agent())
    assert await switch_profile(platform, session, model="openai/egret") == 200
    profile_path = f"/v1/sessions/{session}/profile"
    for form in ({}, {"profile": None, "model": None}):
        answer = await platform.http.post(profile_path, json=form)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
        assert answer.json()["fix"] == "send `profile`, `model` or both"
    assert len(await platform.load_events(session, ProfileSwitched)) == 1
    assert await switch_profile(platform, session, profile="agent") == 200
    assert (await platform.load_events(session, ProfileSwitched))[-1].model is None


async def test_profile_switch_is_refused_while_a_turn_is_open() -> None:
    shop = await AgentHarness(kind=build_talking_agent()).open_session()
    await shop.house.submit_turn("Get me a hammer.")
    with pytest.raises(Refused, match="turn-open"):
        await shop.house.sessions.handle(
            TENANT, "s", SwitchProfile("talk", shop.kind.profiles), TESTER
        )
