"""What the prompts of the shipped `uderia` are made of, row by row, read back over HTTP.

Rows U1, U2, U14 to U17, U20, U27 and U30. Expected prompts are put together from the files of the
blueprint, so a part that is missing, doubled or out of place fails.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Iterator
from itertools import groupby
from typing import Any

import pytest
import pytest_asyncio

from tests.agent_programs.agent_service import (
    MODEL,
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from turnlog.events.model.call_events import CallCompleted
from turnlog.events.model.session_events import ProfileSwitched
from turnlog.events.model.tool_events import StepPlanned, ToolReturned, ToolsSnapshotted
from turnlog.projections.prompt.planned_output import SCHEMA_INSTRUCTION
from turnlog.projections.tools.parsed_plan import PLAN_OUTPUT_SCHEMA
from turnlog.projections.tools.tool_catalog import ToolOffer
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS
from turnlog.services.sample_servers.harbour import delay_report
from turnlog.services.worker.tools.mcp_servers import McpToolServers

pytestmark = pytest.mark.asyncio(loop_scope="module")

UDERIA = SHIPPED_BLUEPRINTS / "uderia"

LIMIT = "Most steps of a plan: 8"

SYSTEM = "the ferry harbour of Holm"

TOOLS = (
    f"Tools of {SYSTEM}:\n"
    "- harbour_look: Looks for a thing.\n    what (string)\n"
    "- harbour_pay: Pays for it.\n    what (string)"
)

GREETING = ToolOffer(
    tool="greet",
    description="How to greet.",
    schema={"type": "object", "properties": {"tone": {"type": "string"}}, "required": ["tone"]},
    kind="prompt",
)

PROMPTS = f"Prompts of {SYSTEM}:\n- harbour_greet: How to greet.\n    tone (string, required)"

INSTRUCTIONS = "Give times in UTC."


def read_prompt_file(category: str) -> str:
    """Return the text of a category as it ships."""
    return (UDERIA / f"{category}.md").read_text().strip()


def join_layers(*layers: str) -> str:
    return "\n\n".join(layers)


BASE, STRATEGY, TALK, CHARTS, RECOVERY, TACTIC, REPLY = map(
    read_prompt_file,
    (
        *("master_system", "workflow_classification", "conversation_execution"),
        *("visualization", "error_recovery", "tactic", "answer"),
    ),
)

HEADING = "# Instructions for this session"


PLAN_FORM = f"{SCHEMA_INSTRUCTION}\n{json.dumps(PLAN_OUTPUT_SCHEMA)}"
"""What a model is told of the form of a plan if it does not take `response_format`."""


def include_in_plan(tools: str) -> str:
    """Return the planner's text with what it includes."""
    return STRATEGY.replace("{plan_limit}", LIMIT).replace("{tools_text}", tools)


def include_in_tactic(goal: str) -> str:
    """Return the text of a step with its goal."""
    return TACTIC.replace("{step_goal}", goal)


async def open_working_session(platform: AgentService, **attributes: object) -> str:
    return await platform.open_shipped_session(
        "uderia", attributes=attributes, profile="tool_enabled"
    )


async def open_talking_session(platform: AgentService, **attributes: object) -> str:
    return await platform.open_shipped_session("uderia", attributes=attributes)


async def run_tool_turn(platform: AgentService, session: str, text: str = "Which boats?") -> None:
    """Run a turn of two steps, each with one tool."""
    await platform.complete_turn(
        session,
        answer_with_plan(("Find boats.", ["harbour_look"]), ("Pay for one.", ["harbour_pay"])),
        answer_with_tool_calls(("harbour_look", {"what": "boat"})),
        answer_with_tool_calls(("harbour_pay", {"what": "boat"})),
        answer_with_text("Three boats."),
        text=text,
    )


async def run_short_turn(platform: AgentService, session: str, text: str = "Hello?") -> None:
    """Run a turn whose plan has no steps."""
    await platform.complete_turn(session, answer_with_plan(), answer_with_text("Yes."), text=text)


async def read_messages(platform: AgentService, session: str, call: str) -> list[tuple[str, str]]:
    """Return role and text of each message of a recorded call."""
    messages = (await platform.fetch_prompt(session, call))["messages"]
    return [(each["role"], each["content"]) for each in messages]


async def list_layers(platform: AgentService, session: str, call: str) -> dict[str, list[str]]:
    """Return the included layers of a recorded call by component, each component measured."""
    manifest = (await platform.fetch_prompt(session, call))["manifest"]
    included = [each for each in manifest["parts"] if each.get("role")]
    assert all(each["tokens"] > 0 for each in included)
    ordered = sorted(included, key=lambda part: str(part["component"]))
    return {
        component: [part["layer"] for part in parts]
        for component, parts in groupby(ordered, lambda part: str(part["component"]))
    }


async def test_u1_system_prompt_is_base_strategy_tools_options_and_instructions(
    platform: AgentService,
) -> None:
    session = await open_working_session(platform, charting=True, instructions=INSTRUCTIONS)
    await run_short_turn(platform, session)
    (system, user) = await read_messages(platform, session, "1.1")
    whole = join_layers(BASE, include_in_plan(TOOLS), CHARTS, HEADING, INSTRUCTIONS, PLAN_FORM)
    assert system == ("system", whole)
    assert user == ("user", "Hello?")
    assert await read_messages(platform, session, "1.2") == [
        ("system", join_layers(BASE, CHARTS, HEADING, INSTRUCTIONS, REPLY)),
        ("user", "Hello?"),
    ]
    plain = await open_working_session(platform)
    await run_short_turn(platform, plain)
    (system, _) = await read_messages(platform, plain, "1.1")
    assert system[1] == join_layers(BASE, include_in_plan(TOOLS), PLAN_FORM), (
        "what is off leaves no trace"
    )


async def test_u1_system_prompt_lists_tools_and_prompts_under_the_system_name(
    platform: AgentService,
) -> None:
    platform.shop.extra_offers = (GREETING,)
    session = await open_working_session(platform, charting=True, instructions=INSTRUCTIONS)
    await run_short_turn(platform, session)
    await run_short_turn(platform, session)
    (system, _) = await read_messages(platform, session, "1.1")
    options = (PROMPTS, CHARTS, HEADING, INSTRUCTIONS, PLAN_FORM)
    assert system[1] == join_layers(BASE, include_in_plan(TOOLS), *options)
    (system, *_) = await read_messages(platform, session, "2.1")
    names = f"Tools of {SYSTEM}:\n- harbour_look\n- harbour_pay"
    assert system[1] == join_layers(BASE, include_in_plan(names), *options)


async def test_u2_every_contributor_is_a_separate_measured_component(
    platform: AgentService,
) -> None:
    session = await open_working_session(platform, charting=True, instructions=INSTRUCTIONS)
    await run_tool_turn(platform, session)
    await run_tool_turn(platform, session, "And now?")
    assert await list_layers(platform, session, "2.1") == {
        "system_prompt": ["base"],
        "task_prompt": ["strategy", "plan_limit", "strategy", "instructions_heading"],
        "tools_context": ["tools_text"],
        "charting": ["charting"],
        "instructions": ["instructions"],
        "history": ["history"],
        "hydration": ["hydration", "hydration"],
        "output_schema": ["output_schema"],
        "query": ["input"],
    }
    assert await list_layers(platform, session, "2.3") == {
        "system_prompt": ["base"],
        "task_prompt": ["tactic", "tactic"],
        "tools_context": ["harbour_pay"],
        "plan": ["step_goal"],
        "results": ["step_results"],
        "query": ["input"],
    }
    manifest = (await platform.fetch_prompt(session, "2.1"))["manifest"]
    measured = [each["tokens"] for each in manifest["parts"] if each.get("role")]
    assert sum(measured) <= manifest["tokens"] <= 8_000


async def test_u14_tools_of_a_profile_are_one_text_until_a_schema_changes(
    platform: AgentService,
) -> None:
    first, second = [await open_working_session(platform) for _ in range(2)]
    await run_short_turn(platform, first)
    await run_short_turn(platform, second)
    schema: Any = {"type": "object", "properties": {"pier": {"type": "integer"}}}
    platform.shop.extra_offers = (
        ToolOffer(tool="tide", description="Tells the tide.", schema=schema),
    )
    third = await open_working_session(platform)
    await run_short_turn(platform, third)
    assert (await platform.http.post(f"/v1/sessions/{first}/schemas")).status_code == 200
    await run_short_turn(platform, first)
    more = f"{TOOLS}\n- harbour_tide: Tells the tide.\n    pier (integer)"
    read = ((first, "1.1"), (second, "1.1"), (third, "1.1"), (first, "2.1"))
    prompts = [(await read_messages(platform, *each))[0][1] for each in read]
    assert prompts == [
        join_layers(BASE, include_in_plan(tools), PLAN_FORM)
        for tools in (TOOLS, TOOLS, more, TOOLS)
    ]
    pinned = [await platform.load_events(each, ToolsSnapshotted) for each in (first, second, third)]
    ((one,), (two,), (three,)) = pinned
    assert one == two
    assert one.digest != three.digest


async def test_u15_each_operation_includes_only_the_components_it_needs(
    platform: AgentService,
) -> None:
    session = await open_working_session(platform)
    await run_tool_turn(platform, session)
    talk = await open_talking_session(platform)
    await platform.complete_turn(talk, answer_with_text("Hello."), text="Hello?")
    assert platform.list_offered_tools() == [[], ["harbour_look"], ["harbour_pay"], [], []]
    components = [
        set(await list_layers(platform, session, f"1.{number}")) for number in range(1, 5)
    ]
    assert components == [
        {"system_prompt", "task_prompt", "tools_context", "output_schema", "query"},
        {"system_prompt", "task_prompt", "plan", "tools_context", "query"},
        {"system_prompt", "task_prompt", "plan", "results", "tools_context", "query"},
        {"system_prompt", "task_prompt", "results", "query"},
    ]
    assert await list_layers(platform, talk, "1.1") == {
        "system_prompt": ["base"],
        "task_prompt": ["conversation"],
        "query": ["input"],
    }


async def test_u16_tool_enabled_plans_runs_tactics_and_replies(platform: AgentService) -> None:
    session = await open_working_session(platform)
    await run_tool_turn(platform, session)
    await run_tool_turn(platform, session, "And now?")
    look = 'harbour_look {"what": "boat"}\n  3 in stock'
    pay = 'harbour_pay {"what": "boat"}\n  3 in stock'
    assert await read_messages(platform, session, "2.2") == [
        ("system", join_layers(BASE, include_in_tactic("Find boats."))),
        ("user", "And now?"),
    ]
    assert await read_messages(platform, session, "2.3") == [
        ("system", join_layers(BASE, include_in_tactic("Pay for one."), look)),
        ("user", "And now?"),
    ]
    assert await read_messages(platform, session, "2.4") == [
        ("system", join_layers(BASE, REPLY, f"{look}\n{pay}")),
        ("user", "Which boats?"),
        ("assistant", "Three boats."),
        ("user", "And now?"),
    ]
    names = f"Tools of {SYSTEM}:\n- harbour_look\n- harbour_pay"
    worked = "Planned:\n1. Find boats.\n2. Pay for one."
    assert await read_messages(platform, session, "2.1") == [
        ("system", join_layers(BASE, include_in_plan(names), PLAN_FORM)),
        ("user", "Which boats?"),
        ("assistant", f"{worked}\n\nThree boats."),
        ("system", f"What tools gave in the turn before:\nr1:\n{look}\nr2:\n{pay}"),
        ("user", "And now?"),
    ]


async def test_u16_llm_only_has_the_whole_history_and_no_tools(platform: AgentService) -> None:
    session = await open_talking_session(platform)
    texts = [f"Thought {number}?" for number in range(1, 6)]
    for text in texts:
        await platform.complete_turn(session, answer_with_text(f"On {text}"), text=text)
    before = [pair for text in texts[:-1] for pair in (("user", text), ("assistant", f"On {text}"))]
    assert await read_messages(platform, session, "5.1") == [
        ("system", join_layers(BASE, TALK)),
        *before,
        ("user", "Thought 5?"),
    ]
    assert (await platform.fetch_prompt(session, "5.1"))["tools"] == []
    assert await platform.load_events(session, ToolsSnapshotted) == []


@pytest.fixture
def overrides(platform: AgentService) -> Iterator[dict[str, str]]:
    """The shipped blueprint with files that its operator puts beside those that ship."""
    folder = platform.folder / "uderia"
    shutil.copytree(UDERIA, folder)
    words = {
        "openai/master_system.md": "You speak through this provider.",
        "overrides/tool_enabled/workflow_classification.md": 'Plan as JSON: {"steps": []}',
        "overrides/tool_enabled/error_recovery.md": "Try the other tool.",
        "overrides/llm_only/master_system.md": "You only talk.",
        "overrides/llm_only/conversation_execution.md": "Talk at length.",
        "overrides/tool_enabled/visualization.md": "Draw bars.",
    }
    for name, text in words.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    yield words
    shutil.rmtree(folder)


async def test_u17_profile_overrides_each_prompt_file(
    platform: AgentService, overrides: dict[str, str]
) -> None:
    session = await open_working_session(platform, charting=True)
    platform.shop.failing_tools = ["look"]
    look = answer_with_tool_calls(("harbour_look", {"what": "boat"}))
    plan = answer_with_plan(("Find boats.", ["harbour_look"]))
    await platform.complete_turn(session, plan, look, look, answer_with_text("Three."), text="Hm?")
    base, plan_words, recovery, other, talk, charts = overrides.values()
    (system, _) = await read_messages(platform, session, "1.1")
    assert system[1] == join_layers(base, plan_words, LIMIT, TOOLS, charts, PLAN_FORM)
    failed = 'harbour_look {"what": "boat"}\n  failed: the shelf is locked'
    (system, _) = await read_messages(platform, session, "1.3")
    assert system[1] == join_layers(base, include_in_tactic("Find boats."), failed, recovery)
    talking = await open_talking_session(platform)
    await platform.complete_turn(talking, answer_with_text("Well."), text="Hm?")
    (system, _) = await read_messages(platform, talking, "1.1")
    assert system[1] == join_layers(other, talk)


async def test_u17_profile_without_overrides_uses_the_shipped_prompt_files(
    platform: AgentService,
) -> None:
    platform.shop.failing_tools = ["look"]
    look = answer_with_tool_calls(("harbour_look", {"what": "boat"}))
    session = await open_working_session(platform)
    plan = answer_with_plan(("Find boats.", ["harbour_look"]))
    await platform.complete_turn(session, plan, look, look, answer_with_text("Three."), text="Hm?")
    failed = 'harbour_look {"what": "boat"}\n  failed: the shelf is locked'
    (system, _) = await read_messages(platform, session, "1.3")
    assert system[1] == join_layers(BASE, include_in_tactic("Find boats."), failed, RECOVERY)


@pytest_asyncio.fixture(loop_scope="module")
async def harbour(platform: AgentService) -> AsyncIterator[None]:
    """The tool server that ships, as a real program."""
    servers = McpToolServers()
    platform.worker.servers = servers
    yield
    await servers.close()


@pytest.mark.usefixtures("harbour")
async def test_u20_tools_of_a_real_server_are_listed_and_run(platform: AgentService) -> None:
    session = await open_working_session(platform)
    await platform.complete_turn(
        session,
        answer_with_plan(("Look at the lock.", ["harbour_locks"])),
        answer_with_tool_calls(("harbour_locks", {})),
        answer_with_text("At four."),
        text="When is the lock opened?",
    )
    (system, _) = await read_messages(platform, session, "1.1")
    assert "\n- harbour_locks: Tell when the lock is opened next, and how many wait." in system[1]
    assert system[1].count("\n- harbour_") == 20 + 1, "and a prompt"
    result = 'harbour_locks {}\n  {"next":"16:00","waiting":2}'
    (system, _) = await read_messages(platform, session, "1.3")
    assert system[1] == join_layers(BASE, REPLY, result)


@pytest.mark.usefixtures("harbour")
async def test_u20_prompt_of_a_real_server_is_planned_called_and_read_like_a_tool(
    platform: AgentService,
) -> None:
    session = await open_working_session(platform)
    arguments = {"day": "Monday"}
    await platform.complete_turn(
        session,
        answer_with_plan(("Read how delays are reported.", ["harbour_delay_report"])),
        answer_with_tool_calls(("harbour_delay_report", arguments)),
        answer_with_text("None were late."),
        text="How late were we on Monday?",
    )
    about = "Tell how the harbour master wants the delays of a day reported."
    (system, _) = await read_messages(platform, session, "1.1")
    prompts = f"Prompts of {SYSTEM}:\n- harbour_delay_report: {about}\n    day (string)"
    assert system[1].endswith("\n\n" + join_layers(prompts, PLAN_FORM))
    assert platform.list_offered_tools() == [[], ["harbour_delay_report"], []]
    (offered,) = platform.bodies[1]["tools"]
    assert offered["function"]["description"] == about
    (returned,) = await platform.load_events(session, ToolReturned)
    assert (returned.outcome, returned.treatment) == ("answered", "kept")
    (system, _) = await read_messages(platform, session, "1.3")
    text = f'harbour_delay_report {{"day": "Monday"}}\n  {delay_report("Monday")}'
    assert system[1] == join_layers(BASE, REPLY, text)


@pytest.mark.usefixtures("harbour")
async def test_u20_error_of_a_server_prompt_is_shown_and_the_step_is_retried(
    platform: AgentService,
) -> None:
    session = await open_working_session(platform)
    unknown, known = {"month": "May"}, {"day": "Monday"}
    await platform.complete_turn(
        session,
        answer_with_plan(("Read how delays are reported.", ["harbour_delay_report"])),
        *(answer_with_tool_calls(("harbour_delay_report", each)) for each in (unknown, known)),
        answer_with_text("None were late."),
        text="How late?",
    )
    failed = 'harbour_delay_report {"month": "May"}\n  failed: Internal server error'
    (system, _) = await read_messages(platform, session, "1.3")
    step = include_in_tactic("Read how delays are reported.")
    assert system[1] == join_layers(BASE, step, failed, RECOVERY)
    (system, _) = await read_messages(platform, session, "1.4")
    text = f'harbour_delay_report {{"day": "Monday"}}\n  {delay_report("Monday")}'
    assert system[1] == join_layers(BASE, REPLY, f"{failed}\n{text}")


async def test_u27_malformed_plan_is_repaired_and_each_repair_is_recorded(
    platform: AgentService,
) -> None:
    session = await open_working_session(platform)
    malformed = '```json\n{"steps": [{"goal": 7, "tools": "harbour_look"}, "Pay\u0001 now."]}\n```'
    await platform.complete_turn(
        session,
        answer_with_text(f"Here it is:\n{malformed}"),
        answer_with_tool_calls(("harbour_look", {"what": "boat"})),
        answer_with_text("None."),
        answer_with_text("Done."),
        text="Pay.",
    )
    steps = await platform.load_events(session, StepPlanned)
    assert [(each.goal.model_dump()["text"], each.tools) for each in steps] == [
        ("7", ("harbour_look",)),
        ("Pay now.", ()),
    ]
    completed = (await platform.load_events(session, CallCompleted))[0]
    assert completed.repairs == (
        "control characters taken out",
        "taken out of a block of code",
        "steps.0.goal: a number for a text",
        "steps.0.tools: one for a list",
        "steps.1: what `goal` should say, alone",
    )
    (system, _) = await read_messages(platform, session, "1.2")
    assert system[1] == join_layers(BASE, include_in_tactic("7"))


async def test_u30_profile_and_model_change_within_a_session_and_are_recorded(
    platform: AgentService,
) -> None:
    session = await open_working_session(platform)
    await run_short_turn(platform, session)
    path = f"/v1/sessions/{session}/profile"
    assert (await platform.http.post(path, json={"profile": "llm_only"})).status_code == 200
    await platform.complete_turn(session, answer_with_text("Well."), text="Tell me.")
    assert await read_messages(platform, session, "2.1") == [
        ("system", join_layers(BASE, TALK)),
        ("user", "Hello?"),
        ("assistant", "Yes."),
        ("user", "Tell me."),
    ]
    other = "openai/gpt-5-mini"
    assert (await platform.http.post(path, json={"model": other})).status_code == 200
    await platform.complete_turn(session, answer_with_text("Still."), text="Again?")
    assert [each["model"] for each in platform.bodies] == [*["heron"] * 3, "gpt-5-mini"]
    switched = await platform.load_events(session, ProfileSwitched)
    assert [(each.before, each.profile, each.model, each.reason) for each in switched] == [
        ("tool_enabled", "llm_only", None, "asked"),
        ("llm_only", "llm_only", other, "asked"),
    ]
    last = (await platform.load_recorded_events(session))[-1].sequence
    used = await platform.fetch_json(f"/v1/sessions/{session}/calls", min_sequence=last)
    assert used["models"] == [MODEL, other]
    assert used["profiles"] == ["tool_enabled", "llm_only"]
