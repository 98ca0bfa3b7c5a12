"""U9: a plan includes the tool results of the turn before and can reuse them.

A step from a result makes no call and runs no tool. A result that later turns may not see reaches
no plan.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agent_programs.agent_harness import (
    AgentHarness,
    FakeToolServer,
    build_agent_blueprint,
    build_plan_script,
    build_tool_script,
)
from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.agent_programs.agent_service import answer_with_plan as planned
from tests.support.sessions.puppet_model import ScriptStep
from tests.support.sessions.session_harness import TENANT, TESTER
from turnlog.events.model.call_events import CallCompleted, ContextAssembled
from turnlog.events.model.tool_events import StepPlanned, ToolReturned
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.session.commands import Command, ExcludeTurn, RestoreTurn
from turnlog.projections.session.turn_commands import RedactReply

pytestmark = pytest.mark.asyncio(loop_scope="module")

STOCK = 'shop_look {"what": "hammer"}\n  3 in stock'

TOLD = f"What tools gave in the turn before:\nr1:\n{STOCK}"


def build_hydrating_agent() -> Blueprint:
    """Return an agent whose plans include the results of the turn before."""
    plain = build_agent_blueprint().model_dump(mode="json", by_alias=True, exclude_unset=True)
    layers = {**plain["layers"], "hydration": {"results": "previous_turn"}}
    calls: dict[str, Any] = plain["calls"]
    calls["plan"]["messages"][0]["system"] = ["rules", "hydration"]
    return build_agent_blueprint(layers=layers, calls=calls)


def build_partial_plan_script(goal: str, name: str) -> list[ScriptStep]:
    """Return a script that plans one step from a prior result and one step with a tool."""
    steps = [{"goal": goal, "from": name}, {"goal": "Pay for it.", "tools": ["shop_pay"]}]
    return [json.dumps({"steps": steps})]


async def run_lookup_turn(gives: str = "3 in stock") -> AgentHarness:
    """Run a turn in which a tool returns `gives`."""
    shop = await AgentHarness(
        FakeToolServer(result_text=gives), kind=build_hydrating_agent()
    ).open_session()
    look = build_tool_script(("shop_look", '{"what": "hammer"}'))
    await shop.run_turn(build_plan_script(("Find a hammer.", ["shop_look"])), look, ["Three."])
    return shop


async def test_u9_plan_includes_results_of_the_last_turn_and_skips_calls_they_satisfy(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_hydrating_agent())
    look = answer_with_tool_calls(("shop_look", {"what": "hammer"}))
    await platform.complete_turn(
        session, planned(("Find one.", [])), look, answer_with_text("Three.")
    )
    plan_answer = answer_with_text(
        json.dumps({"steps": [{"goal": "Find a hammer.", "from": "r1"}]})
    )
    await platform.complete_turn(
        session, plan_answer, answer_with_text("Three, as I said."), text="How many were that?"
    )
    assert "r1:" in platform.get_request_texts(3)[0]
    assert "3 in stock" in platform.get_request_texts(3)[0]
    assert "3 in stock" in platform.get_request_texts(4)[0]
    kinds = [each["kind"] for each in await platform.list_calls(session) if each["turn"] == 2]
    assert kinds == ["plan", "synthesise"]
    assert len(platform.shop.tool_calls) == 1
    turns = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert [step["given"] for step in turns[1]["steps"]] == [True]


async def test_step_satisfied_by_prior_result_is_among_the_results_of_later_steps() -> None:
    shop = await run_lookup_turn()
    pay = build_tool_script(("shop_pay", '{"what": "hammer"}'))
    await shop.run_turn(
        build_partial_plan_script("Find a hammer.", "r1"), pay, ["Paid."], text="Buy one."
    )
    assert shop.get_request_texts(3)[0] == f"Plan first.\n\n{TOLD}"
    assert shop.get_request_texts(4)[0] == f"Pay for it.\n\n{STOCK}"
    kinds = [each.manifest.kind for each in shop.list_events(ContextAssembled)]
    assert kinds[3:] == ["plan", "tactic", "synthesise"]
    (first,) = [each for each in shop.house.list_events() if isinstance(each.event, ToolReturned)][
        :1
    ]
    assert [each.given for each in shop.list_events(StepPlanned)] == [None, first.sequence, None]
    assert [tool for tool, _ in shop.shop.tool_calls] == ["look", "pay"]


async def test_prior_result_condensed_for_a_later_turn_records_its_rule() -> None:
    shop = await run_lookup_turn("3 in stock, and 4 on their way. " * 40)
    await shop.run_turn(build_plan_script(), ["Three."], text="How many?")
    parts = [each.manifest.parts for each in shop.list_events(ContextAssembled)]
    result_parts = [
        next(part for part in call if part.layer == "results" and part.is_included)
        for call in parts[2:3]
    ]
    result_parts += [part for part in parts[3] if part.layer == "hydration"]
    assert [(part.treatment, part.rule) for part in result_parts] == [
        ("kept", None),
        ("condensed", "distil"),
    ]


async def test_step_with_unknown_prior_result_runs_and_is_recorded_as_repair() -> None:
    shop = await run_lookup_turn()
    look = build_tool_script(("shop_look", '{"what": "hammer"}'))
    pay = build_tool_script(("shop_pay", '{"what": "hammer"}'))
    await shop.run_turn(
        build_partial_plan_script("Find a hammer.", "r7"), look, pay, ["So."], text="Buy one."
    )
    assert shop.list_events(CallCompleted)[3].repairs == ("steps.0: there is no result 'r7'",)
    assert [tool for tool, _ in shop.shop.tool_calls] == ["look", "look", "pay"]


async def test_long_prior_result_is_condensed_to_its_columns() -> None:
    rows = [{"id": n, "name": f"thing {n}"} for n in range(40)]
    shop = await run_lookup_turn(json.dumps(rows))
    await shop.run_turn(build_plan_script(), ["So."], text="And?")
    assert "40 rows with columns id, name; the first 3:" in shop.get_request_texts(3)[0]
    assert "thing 39" in shop.get_request_texts(2)[0]
    assert "thing 39" not in shop.get_request_texts(3)[0]


@pytest.mark.parametrize(
    ("commands", "rule"),
    [
        ((ExcludeTurn(1),), "excluded"),
        ((RedactReply(1, "a guess", "operator", "(Withheld.)"),), "redacted"),
        ((ExcludeTurn(1), RestoreTurn(1)), None),
    ],
)
async def test_prior_results_of_excluded_or_redacted_turns_reach_no_plan(
    commands: tuple[Command, ...], rule: str | None
) -> None:
    shop = await run_lookup_turn()
    for command in commands:
        await shop.house.sessions.handle(TENANT, "s", command, TESTER)
    await shop.run_turn(build_plan_script(), ["So."], text="And?")
    assert ("3 in stock" in shop.get_request_texts(3)[0]) == (rule is None)
    manifest = shop.list_events(ContextAssembled)[3].manifest
    (part,) = [part for part in manifest.parts if part.layer == "hydration"]
    assert (part.rule, part.is_included) == (rule, rule is None)


async def test_turn_without_tool_results_provides_no_prior_results() -> None:
    shop = await run_lookup_turn()
    await shop.run_turn(build_plan_script(), ["You are welcome."], text="Thanks.")
    await shop.run_turn(build_plan_script(), ["Yes?"], text="And?")
    assert shop.get_request_texts(5)[0] == "Plan first."


async def test_prior_result_leaves_the_turn_if_its_origin_is_excluded_meanwhile() -> None:
    shop = await run_lookup_turn()
    excluding = ExcludeTurn(1)
    shop.shop.during_call = lambda: shop.house.sessions.handle(TENANT, "s", excluding, TESTER)
    pay = build_tool_script(("shop_pay", '{"what": "hammer"}'))
    await shop.run_turn(
        build_partial_plan_script("Find a hammer.", "r1"), pay, ["Paid."], text="Buy one."
    )
    assert "shop_look" in shop.get_request_texts(4)[0]
    assert "shop_look" not in shop.get_request_texts(5)[0]
