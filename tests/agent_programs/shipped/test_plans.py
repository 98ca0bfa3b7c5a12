"""Plans in the shipped `uderia`: loops over an injected result, unknown fields, too many steps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from turnlog.events.content import PlainText
from turnlog.events.model.call_events import CallCompleted
from turnlog.events.model.tool_events import StepPlanned, ToolReturned
from turnlog.events.model.turn_events import TurnCompleted

pytestmark = pytest.mark.asyncio(loop_scope="module")

SHIPS = [
    {"ship": "Heron", "late": 19},
    {"ship": "Gannet", "late": 20},
    {"ship": "Egret", "late": 7},
]


async def open_session_with_result(platform: AgentService, result: str) -> str:
    """Open a session whose first turn got this result, which the next plan knows as `r1`."""
    session = await platform.open_shipped_session("uderia", attributes={}, profile="tool_enabled")
    platform.shop.results = [result]
    await platform.complete_turn(
        session,
        answer_with_plan(("Count late boats.", ["harbour_look"])),
        answer_with_tool_calls(("harbour_look", {"what": "boats"})),
        answer_with_text("Three ships."),
        text="How many were late?",
    )
    return session


def answer_with_steps(*steps: dict[str, Any], **more: object) -> Any:  # noqa: ANN401
    return answer_with_text(json.dumps({"steps": steps, **more}))


async def list_plan_repairs(platform: AgentService, session: str) -> tuple[str, ...]:
    completed = await platform.load_events(session, CallCompleted)
    return next(each.repairs for each in reversed(completed) if each.repairs)


async def list_goals(platform: AgentService, session: str) -> list[str]:
    steps = await platform.load_events(session, StepPlanned)
    return [each.goal.text for each in steps if isinstance(each.goal, PlainText)]


async def test_u9_loop_over_injected_result_plans_one_step_per_row(
    platform: AgentService,
) -> None:
    session = await open_session_with_result(platform, json.dumps(SHIPS))
    loop = {"goal": "Find the crew.", "tools": ["harbour_look"], "loop": {"source": "r1"}}
    crews = [answer_with_tool_calls(("harbour_look", {"what": each["ship"]})) for each in SHIPS]
    await platform.complete_turn(
        session, answer_with_steps(loop), *crews, answer_with_text("Done."), text="And the crews?"
    )
    (result, *_) = await platform.load_events(session, ToolReturned)
    steps = [each for each in await platform.load_events(session, StepPlanned) if each.turn == 2]
    sequences = [
        each.sequence
        for each in await platform.load_recorded_events(session)
        if each.event == result
    ]
    assert [each.loop for each in steps] == sequences * 3
    assert (await list_goals(platform, session))[1:] == [
        f"Find the crew.\nRow {number} of 3: "
        + json.dumps(row, sort_keys=True, separators=(",", ":"))
        for number, row in enumerate(SHIPS, 1)
    ]
    for number, row in enumerate(SHIPS, 2):
        prompt = await platform.fetch_prompt(session, f"2.{number}")
        assert f'"ship":"{row["ship"]}"' in prompt["messages"][0]["content"]
    assert [call[1]["what"] for call in platform.shop.tool_calls[1:]] == [
        "Heron",
        "Gannet",
        "Egret",
    ]
    plan = await platform.fetch_prompt(session, "2.1")
    assert "r1:\nharbour_look" in plan["messages"][-2]["content"], "the source it may loop over"


async def test_u9_loop_over_too_many_rows_is_cut_and_the_cut_is_recorded(
    platform: AgentService,
) -> None:
    session = await open_session_with_result(platform, json.dumps([{"n": n} for n in range(40)]))
    steps = ({"goal": "Look.", "loop": "r1"}, {"goal": "Add them up."})
    tactics = [answer_with_text("None.")] * 8
    await platform.complete_turn(
        session, answer_with_steps(*steps), *tactics, answer_with_text("Done."), text="Each?"
    )
    goals = (await list_goals(platform, session))[1:]
    assert (len(goals), goals[0], goals[-1]) == (8, 'Look.\nRow 1 of 40: {"n":0}', "Add them up.")
    assert await list_plan_repairs(platform, session) == (
        "steps.0.loop: what `source` should say, alone",
        "steps.0: a loop over 40 rows, cut to 7",
    )


async def test_u9_loop_over_result_larger_than_a_message_plans_one_step_per_row(
    platform: AgentService,
) -> None:
    rows = [{"n": n, "log": "x" * 600_000} for n in range(2)]
    session = await open_session_with_result(platform, json.dumps(rows))
    (result,) = await platform.load_events(session, ToolReturned)
    assert result.whole is not None
    loop, tactics = {"goal": "Look.", "loop": {"source": "r1"}}, [answer_with_text("None.")] * 2
    await platform.complete_turn(
        session, answer_with_steps(loop), *tactics, answer_with_text("Done."), text="Each?"
    )
    goals = (await list_goals(platform, session))[1:]
    assert [each.partition(":")[0] for each in goals] == [
        f"Look.\nRow {number} of 2" for number in (1, 2)
    ]


async def test_u9_unknown_fields_and_sources_of_a_plan_are_recorded_as_repairs(
    platform: AgentService,
) -> None:
    session = await open_session_with_result(platform, json.dumps(SHIPS))
    step = {"goal": "Look.", "loop": {"source": "r7"}, "phase": 2, "parallel": True}
    await platform.complete_turn(
        session,
        answer_with_steps(step, title="A plan"),
        *(answer_with_text("None."), answer_with_text("Done.")),
        text="And now?",
    )
    assert await list_plan_repairs(platform, session) == (
        "unknown field 'title', left out",
        "steps.0: unknown field 'phase', left out",
        "steps.0: unknown field 'parallel', left out",
        "steps.0: there is no result 'r7'",
    )
    assert (await list_goals(platform, session))[1:] == ["Look."]


def list_messages(prompt: dict[str, Any]) -> list[tuple[str, str]]:
    """Return role and text of the messages after the first system message."""
    return [(each["role"], each["content"]) for each in prompt["messages"][1:]]


async def test_u9_prior_results_are_included_once_and_failures_stay_in_history(
    platform: AgentService,
) -> None:
    platform.shop.failing_tools = ["pay"]
    session = await open_session_with_result(platform, "3 in stock")
    look = ("harbour_look", {"what": "boats"})
    both = answer_with_tool_calls(look, ("harbour_pay", {"what": "boat"}))
    await platform.complete_turn(
        session,
        answer_with_plan(("Look, and pay.", [])),
        both,
        answer_with_text("Not paid."),
        text="Buy one.",
    )
    for text in ("And now?", "And then?"):
        await platform.complete_turn(
            session, answer_with_plan(), answer_with_text("So."), text=text
        )
    counted, failed = (
        'harbour_look {"what": "boats"}\n  3 in stock',
        'harbour_pay {"what": "boat"}\n  failed: the shelf is locked',
    )
    plan = "Planned:\n1. Count late boats."
    first = ("user", "How many were late?")
    carried = ("system", f"What tools gave in the turn before:\nr1:\n{counted}")
    assert list_messages(await platform.fetch_prompt(session, "2.1")) == [
        first,
        ("assistant", f"{plan}\n\nThree ships."),
        carried,
        ("user", "Buy one."),
    ]
    whole = ("assistant", f"{plan}\nTools gave:\n{counted}\n\nThree ships.")
    bought = "Planned:\n1. Look, and pay.\nTools gave:\n"
    prompt = await platform.fetch_prompt(session, "3.1")
    assert list_messages(prompt) == [
        first,
        whole,
        ("user", "Buy one."),
        ("assistant", f"{bought}{failed}\n\nNot paid."),
        carried,
        ("user", "And now?"),
    ]
    history = [each for each in prompt["manifest"]["parts"] if each["layer"] == "history"]
    assert [(each["treatment"], each.get("rule")) for each in history] == [
        ("kept", None),
        ("condensed", "results in a layer of their own"),
    ]
    assert history[1]["saved"] > 0
    fourth = list_messages(await platform.fetch_prompt(session, "4.1"))
    assert fourth[3] == ("assistant", f"{bought}{counted}\n{failed}\n\nNot paid.")
    assert "What tools gave in the turn before" not in str(fourth), "nothing is hydrated any more"
    assert (await platform.fetch_json(f"/v1/sessions/{session}/verify"))["verified"]
    completed = [
        each.sequence
        for each in await platform.load_recorded_events(session)
        if isinstance(each.event, TurnCompleted)
    ]
    for path, changed in (("2.1/diff/3.1", 1), ("3.1/diff/4.1", 2)):
        found = await platform.fetch_json(f"/v1/sessions/{session}/calls/{path}")
        (whole_again,) = [each["because"] for each in found["changes"] if each["first"] == changed]
        because = [(each["what"], each["by"][0]["sequence"]) for each in whole_again]
        assert because == [("answered", completed[changed])], "the next answer took its place"


async def test_plan_with_too_many_steps_is_cut_and_the_prompt_states_the_limit(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={}, profile="tool_enabled")
    steps = [{"goal": f"Look at pier {n}."} for n in range(12)]
    steps[0]["goal"] += " Well." * 400
    tactics = [answer_with_text("None.")] * 8
    await platform.complete_turn(
        session, answer_with_steps(*steps), *tactics, answer_with_text("Done."), text="All piers?"
    )
    plan = await platform.fetch_prompt(session, "1.1")
    assert "Most steps of a plan: 8" in plan["messages"][0]["content"]
    goals = await list_goals(platform, session)
    assert (len(goals), len(goals[0])) == (8, 1_000)
    assert await list_plan_repairs(platform, session) == (
        "steps: 12 of them, cut to 8",
        "steps.0: goal of 2415 characters, cut",
    )
