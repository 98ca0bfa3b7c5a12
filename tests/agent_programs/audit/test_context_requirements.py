"""The layers of a call and their tokens, one requirement after the other."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from tests.agent_programs.agent_harness import build_agent_blueprint
from tests.agent_programs.agent_service import (
    TWO_STEP_ANSWERS,
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import BlobSource, PromptPart
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint

pytestmark = pytest.mark.asyncio(loop_scope="module")

FILES = {
    "master_system.md": "You are Uderia.\n\nTools:\n{tools}\n\nPrompts:\n{prompts}\n\nBe brief.",
    "openai/visualization.md": "Draw what can be drawn.",
    "visualization.md": "Draw nothing.",
    "workflow_classification.md": "Plan in steps.",
    "conversation_execution.md": "Talk.",
    "error_recovery.md": "Try again.",
    "overrides/agent/error_recovery.md": "Try another way.",
    "overrides/talk/master_system.md": "You only talk.",
    "overrides/talk/conversation_execution.md": "Talk at length.",
    "overrides/agent/openai/visualization.md": "Draw bars.",
}

COMPONENTS: dict[str, Any] = {
    "system_prompt": {"tokens": 1_000, "fixed": True},
    "tools_context": {"tokens": 2_000, "ladder": [{"condense_tools": {}}]},
    "history": {
        "tokens": 3_000,
        "ladder": [{"condense_repeats": {}}, {"drop_oldest_pairs": {}}],
    },
    "rag_context": {"tokens": 1_000},
    "query": {"tokens": 1_000, "fixed": True},
}

TIGHT: dict[str, Any] = {"tokens": 20, "ladder": [{"condense_tools": {}}]}


def build_component_budget(**components: dict[str, Any]) -> dict[str, Any]:
    """Return a budget of 8,000 tokens by component; keywords override components."""
    return {"window": {"tokens": 8_000, "components": COMPONENTS | components}}


def build_full_agent(name: str, **changes: Any) -> Blueprint:  # noqa: ANN401 - pieces of a blueprint
    """Return an agent whose prompts use every layer source."""
    layers = {
        "base": {"override": {"category": "master_system"}},
        "charting": {
            "override": {"category": "visualization", "by": "provider"},
            "when": {"attribute": "charting"},
        },
        "strategy": {"override": {"category": "workflow_classification"}},
        "manner": {"override": {"category": "conversation_execution"}},
        "recovery": {"override": {"category": "error_recovery"}, "when": "step_failed"},
        "instructions": {"attribute": "instructions", "component": "instructions"},
        "tools": {"tools": "all", "component": "tools_context"},
        "prompts": {"text": "- none", "component": "tools_context"},
        "goal": {"step": "goal", "component": "step"},
        "results": {"step": "results", "component": "results"},
    }
    plan = ["base", "charting", "instructions", "tools", "prompts", "strategy"]
    seen: list[dict[str, Any]] = [{"history": "recent"}, {"user": ["input"]}]
    calls: dict[str, dict[str, Any]] = {
        "plan": {"messages": [{"system": plan}, *seen]},
        "tactic": {
            "messages": [{"system": ["goal", "results", "recovery"]}, {"user": ["input"]}],
            "tools": ["for_step"],
        },
        "synthesise": {"messages": [{"system": ["base", "charting", "results"]}, *seen]},
        "converse": {"messages": [{"system": ["base", "manner"]}, *seen]},
    }
    tools = {"program": "tools", "plan": "plan", "act": "tactic", "call": "synthesise"}
    return build_agent_blueprint(
        **{
            "blueprint": name,
            "attributes": {"charting": {"type": "bool"}, "instructions": {"type": "text"}},
            "layers": layers,
            "calls": {kind: {**call, "budget": "window"} for kind, call in calls.items()},
            "budget": build_component_budget(),
            "profiles": {"agent": {"default": True, **tools}, "talk": {"call": "converse"}},
            **changes,
        }
    )


async def open_with_files(platform: AgentService, kind: Blueprint, **form: object) -> str:
    """Write the prompt files and open a session."""
    for name, text in FILES.items():
        file = platform.folder / kind.blueprint / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return await platform.open_session(kind, **form)


async def list_kept_parts(platform: AgentService, session: str) -> list[list[PromptPart]]:
    """Give the parts that stand in each call."""
    calls = await platform.load_events(session, ContextAssembled)
    return [[part for part in call.manifest.parts if part.is_included] for call in calls]


async def run_short_turn(
    platform: AgentService, session: str, text: str = "Hi.", reply: str = "Hello."
) -> None:
    """Run a turn whose plan has no steps."""
    await platform.complete_turn(session, answer_with_plan(), answer_with_text(reply), text=text)


@pytest.mark.slow("turns of several calls run over HTTP")
async def test_u1_base_prompt_includes_tools_and_prompts_at_their_placeholders(
    platform: AgentService,
) -> None:
    session = await open_with_files(platform, build_full_agent("u1"), attributes={"charting": True})
    await run_short_turn(platform, session)
    tools = "- shop_look: Looks for a thing.\n    what (string)\n- shop_pay: Pays for it."
    tools += "\n    what (string)"
    before = f"You are Uderia.\n\nTools:\n{tools}\n\nPrompts:\n- none\n\nBe brief."
    assert platform.get_request_texts(0)[0] == f"{before}\n\nDraw bars.\n\nPlan in steps."
    nothing = "You are Uderia.\n\nTools:\n\n\nPrompts:\n\n\nBe brief."
    assert platform.get_request_texts(1)[0] == f"{nothing}\n\nDraw bars."
    plan, reply = await list_kept_parts(platform, session)
    assert [part.layer for part in plan] == [
        *("base", "tools", "base", "prompts", "base", "charting", "strategy", "input")
    ]
    assert [part.layer for part in reply] == ["base", "base", "base", "charting", "input"]


async def test_u1_each_piece_of_base_prompt_has_its_own_source(platform: AgentService) -> None:
    session = await open_with_files(platform, build_full_agent("u1"))
    await run_short_turn(platform, session)
    (plan, _) = await list_kept_parts(platform, session)
    text = FILES["master_system.md"]
    text_excerpts = [part.excerpt for part in plan if part.layer == "base"]
    excerpts = [text[each.begin : each.end] for each in text_excerpts if each]
    assert excerpts == ["You are Uderia.\n\nTools:\n", "\n\nPrompts:\n", "\n\nBe brief."]
    sources = {part.layer: type(part.source).__name__ for part in plan}
    assert sources == {
        "base": "BlobSource",
        "tools": "BlobSource",
        "prompts": "BlueprintTextSource",
        "strategy": "BlobSource",
        "input": "EventTextSource",
    }


async def test_u2_each_contributor_is_a_separate_part_under_its_component(
    platform: AgentService,
) -> None:
    form = {"attributes": {"instructions": "Be kind.", "charting": True}}
    session = await open_with_files(platform, build_full_agent("u2"), **form)
    await run_short_turn(platform, session)
    await platform.complete_turn(session, *TWO_STEP_ANSWERS)
    plan, act, _, reply = [
        {component: [part.layer for part in parts] for component, parts in group_by_component(call)}
        for call in (await list_kept_parts(platform, session))[2:]
    ]
    assert plan == {
        "system_prompt": ["base", "base", "base", "charting", "strategy"],
        "tools_context": ["tools", "prompts"],
        "instructions": ["instructions"],
        "history": ["history"],
        "query": ["input"],
    }
    assert act == {"step": ["goal"], "query": ["input"], "tools_context": ["shop_look"]}
    assert reply == {
        "system_prompt": ["base", "base", "base", "charting"],
        "results": ["results", "results"],
        "history": ["history"],
        "query": ["input"],
    }


def group_by_component(parts: list[PromptPart]) -> list[tuple[str, list[PromptPart]]]:
    """Put parts together by component."""
    ordered = sorted(parts, key=lambda part: part.component)
    return [(name, list(those)) for name, those in groupby(ordered, lambda part: part.component)]


async def test_u15_each_call_includes_only_the_components_it_needs(platform: AgentService) -> None:
    session = await open_with_files(
        platform, build_full_agent("u15"), attributes={"instructions": "Be kind."}
    )
    await platform.complete_turn(session, *TWO_STEP_ANSWERS)
    talk = await open_with_files(platform, build_full_agent("u15"), profile="talk")
    await platform.complete_turn(talk, answer_with_text("Hello."), text="Hi.")
    plan, look, pay, reply = [
        {part.component for part in call} for call in await list_kept_parts(platform, session)
    ]
    assert plan == {"system_prompt", "instructions", "tools_context", "query"}
    assert look == {"step", "tools_context", "query"}
    assert pay == {"step", "tools_context", "results", "query"}
    assert reply == {"system_prompt", "results", "query"}
    (chat,) = await list_kept_parts(platform, talk)
    assert {part.component for part in chat} == {"system_prompt", "query"}
    assert platform.list_offered_tools() == [[], ["shop_look"], ["shop_pay"], [], []]


async def test_u17_profile_overrides_prompt_files(
    platform: AgentService,
) -> None:
    kind = build_full_agent("u17")
    session = await open_with_files(platform, kind)
    await run_short_turn(platform, session)
    assert platform.get_request_texts(0)[0].startswith("You are Uderia.")
    assert platform.get_request_texts(0)[0].endswith("Plan in steps.")
    (platform.folder / "u17/overrides/talk/master_system.md").write_text("You were edited.")
    switch = await platform.http.post(f"/v1/sessions/{session}/profile", json={"profile": "talk"})
    assert switch.status_code == 200
    await platform.complete_turn(session, answer_with_text("Well."), text="Tell me.")
    assert platform.get_request_texts(2)[0] == "You only talk.\n\nTalk at length."
    part = (await list_kept_parts(platform, session))[-1][0]
    assert isinstance(part.source, BlobSource)
    assert part.source.path == "overrides/talk/master_system.md"


async def test_u17_failed_step_is_described_by_prompt_file_of_its_profile(
    platform: AgentService,
) -> None:
    platform.shop.failing_tools = ["look"]
    session, look = (
        await open_with_files(platform, build_full_agent("u17")),
        answer_with_tool_calls(("shop_look", {"what": "x"})),
    )
    await platform.complete_turn(
        session,
        answer_with_plan(("Find it.", ["shop_look"])),
        look,
        look,
        answer_with_text("There."),
    )
    assert platform.get_request_texts(1)[0] == "Find it."
    assert platform.get_request_texts(2)[0].endswith("Try another way.")
    part = next(
        part for part in (await list_kept_parts(platform, session))[2] if part.layer == "recovery"
    )
    assert isinstance(part.source, BlobSource)
    assert (part.source.path, part.rule) == (
        "overrides/agent/error_recovery.md",
        "when step_failed",
    )


async def fetch_growth(platform: AgentService, session: str, **query: object) -> dict[str, Any]:
    """Return the growth of a session, once the read models hold its last event."""
    last = (await platform.load_recorded_events(session))[-1].sequence
    return dict(
        await platform.fetch_json("/v1/growth", session=session, min_sequence=last, **query)
    )


async def list_trim_steps(
    platform: AgentService, session: str
) -> list[tuple[str, str, str | None]]:
    """Return the ladder steps of the latest call: step, target and component."""
    call = (await platform.load_events(session, ContextAssembled))[-1]
    return [(step.step, step.on, step.component) for step in call.manifest.steps]


async def test_u12_input_over_fixed_component_limit_is_refused_with_its_size(
    platform: AgentService,
) -> None:
    assert sum(each["tokens"] for each in COMPONENTS.values()) == 8_000
    session = await open_with_files(
        platform, build_full_agent("u12", budget=build_component_budget())
    )
    too_long = "Tell me everything. " * 201
    path = f"/v1/sessions/{session}/turns"
    refused = await platform.http.post(path, json={"text": too_long})
    problem = refused.json()
    assert (refused.status_code, problem["code"]) == (422, "over-budget")
    assert problem["detail"] == "1005 tokens do not fit component query, which has 1000"
    assert problem["fix"] == "shorten it by 5 tokens"
    assert await platform.load_events(session, TurnSubmitted) == []


async def test_u12_tools_over_their_limit_are_listed_by_name_only(platform: AgentService) -> None:
    session = await open_with_files(
        platform, build_full_agent("u12-tools", budget=build_component_budget(tools_context=TIGHT))
    )
    await run_short_turn(platform, session)
    assert "- shop_look\n- shop_pay" in platform.get_request_texts(0)[0]
    assert "Looks for a thing." not in platform.get_request_texts(0)[0]
    plan = (await platform.load_events(session, ContextAssembled))[0]
    (step,) = plan.manifest.steps
    assert (step.step, step.on, step.component) == ("condense_tools", "tools", "tools_context")
    assert step.before > 20 >= step.after


async def test_u12_history_over_its_limit_condenses_repeats_then_drops_oldest_turns(
    platform: AgentService,
) -> None:
    tight = {"tokens": 80, "ladder": COMPONENTS["history"]["ladder"]}
    session = await open_with_files(
        platform, build_full_agent("u12-history", budget=build_component_budget(history=tight))
    )
    for price, found in ((50, 45), (30, 28), (20, 12)):
        reply = f"I found {found} products. " + "They are all in stock, as far as I can see. " * 2
        await run_short_turn(
            platform, session, f"Show me the products under ${price}, please.", reply
        )
    await run_short_turn(platform, session, "Thank you.", "Always.")
    await run_short_turn(platform, session, "Is it open?", "Yes.")
    assert "$50; $30; $20" in platform.get_request_texts(-1)[1]
    assert await list_trim_steps(platform, session) == [("condense_repeats", "recent", "history")]
    await run_short_turn(platform, session, "What else?", "Nothing that I could think of. " * 6)
    await run_short_turn(platform, session, "A pity.", "Yes.")
    assert platform.get_request_texts(-1)[1:] == [
        *(
            "Thank you.",
            "Always.",
            "Is it open?",
            "Yes.",
            "What else?",
            "Nothing that I could think of. " * 6,
            "A pity.",
        )
    ]
    assert [step for step, _, _ in await list_trim_steps(platform, session)] == [
        *("condense_repeats", "drop_oldest_pairs")
    ]


async def test_u21_growth_reports_tokens_and_savings_of_each_call_by_component(
    platform: AgentService,
) -> None:
    session = await open_with_files(
        platform, build_full_agent("u21", budget=build_component_budget(tools_context=TIGHT))
    )
    await run_short_turn(platform, session, text="Hi there.", reply="Hello.")
    await platform.complete_turn(session, *TWO_STEP_ANSWERS)
    growth = await fetch_growth(platform, session)
    first, second, *_ = growth["calls"]
    system, user = platform.get_request_texts(0)
    assert first["turn_id"] == 1
    assert first["components"] == {
        "system_prompt_tokens": -(-len(system) // 4) - first["components"]["tools_context_tokens"],
        "tools_context_tokens": len("- shop_look\n- shop_pay" + "- none") // 4,
        "history_tokens": 0,
        "rag_context_tokens": 0,
        "query_tokens": -(-len(user) // 4),
        "instructions_tokens": 0,
    }
    assert first["optimizations_applied"] == ["condense_tools"]
    plan = (await platform.load_events(session, ContextAssembled))[0].manifest
    assert first["savings_estimate"] == plan.steps[0].before - plan.steps[0].after
    assert (second["kind"], second["optimizations_applied"]) == ("synthesise", [])
    assert growth["calls"][2]["optimizations_applied"] == ["names"]
    assert growth["calls"][2]["savings_estimate"] > 0
    assert sum(call["tokens"] for call in growth["calls"]) == growth["groups"][0]["tokens"]


async def test_u21_growth_reports_history_growth_and_groups_calls(
    platform: AgentService,
) -> None:
    session = await open_with_files(platform, build_full_agent("u21"))
    for _ in range(3):
        await run_short_turn(platform, session, text="x" * 40, reply="y" * 40)
    growth = await fetch_growth(platform, session, group_by="kind")
    assert growth["history_growth"] == 20
    assert [(each["key"], each["calls"]) for each in growth["groups"]] == [
        ({"kind": "plan"}, 3),
        ({"kind": "synthesise"}, 3),
    ]
    everything = await platform.fetch_json("/v1/growth", group_by="blueprint,kind")
    assert {"blueprint": "u21", "kind": "plan"} in [each["key"] for each in everything["groups"]]
    assert everything["history_growth"] is None
