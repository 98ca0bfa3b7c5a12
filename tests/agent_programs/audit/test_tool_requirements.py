"""Tools of servers, one requirement after the other: disclosure, results, pinned schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import JsonValue

from tests.agent_programs.agent_harness import build_agent_blueprint
from tests.agent_programs.agent_service import (
    TWO_STEP_ANSWERS,
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.support.processes.service_connection import connect_service
from turnlog.client import operations
from turnlog.client.operations import build_read
from turnlog.contract.call_payloads import ToolResultView
from turnlog.events.content import compute_digest
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.tool_events import ToolReturned, ToolsSnapshotted
from turnlog.projections.tools.tool_catalog import ToolOffer
from turnlog.services.cli.client.service_client import send_command
from turnlog.services.cli.console import print_answer
from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.views.tool_result_view import render_tool_result

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"which": {"type": "string", "description": "Which one is meant."}},
}

DRAWERS = tuple(
    ToolOffer(
        tool=f"drawer_{n}",
        description="Looks into one of many drawers and says what is in it.",
        schema=SCHEMA,
    )
    for n in range(18)
)

ROWS = [{"id": n, "name": f"thing {n}", "price": n * 1.5} for n in range(1_000)]


async def list_tool_disclosures(
    platform: AgentService, session: str
) -> list[tuple[str | None, int]]:
    """Return the rule and the tokens of each kept `tools` part."""
    calls = await platform.load_events(session, ContextAssembled)
    parts = [part for call in calls for part in call.manifest.parts if part.is_included]
    return [(part.rule, part.tokens) for part in parts if part.layer == "tools"]


async def run_short_turn(platform: AgentService, session: str) -> None:
    """Run a turn whose plan has no steps."""
    await platform.complete_turn(
        session, answer_with_plan(), answer_with_text("Hello."), text="Hi."
    )


async def test_u6_tools_are_described_in_full_in_turn_1_and_by_name_from_turn_2(
    platform: AgentService,
) -> None:
    platform.shop.extra_offers = DRAWERS
    calls = build_agent_blueprint().model_dump(mode="json", by_alias=True)["calls"]
    calls["tactic"]["messages"][0]["system"].append("tools")
    session = await platform.open_session(build_agent_blueprint(calls=calls))
    await platform.complete_turn(session, *TWO_STEP_ANSWERS)
    await run_short_turn(platform, session)
    disclosures = await list_tool_disclosures(platform, session)
    assert [rule for rule, _ in disclosures] == ["full first_turn"] * 3 + ["names"]
    (_, full), (_, named) = disclosures[0], disclosures[-1]
    assert named <= 0.4 * full


async def test_u6_schema_request_discloses_tools_in_full_for_one_turn(
    platform: AgentService,
) -> None:
    session = await platform.open_session()
    await run_short_turn(platform, session)
    path = f"/v1/sessions/{session}/schemas"
    assert (await platform.http.post(path)).status_code == 200
    served = ServiceTarget(str(platform.http.base_url), platform.folder)
    await send_command(served, operations.request_schemas(session))
    await run_short_turn(platform, session)
    await run_short_turn(platform, session)
    rules = [rule for rule, _ in await list_tool_disclosures(platform, session)]
    assert rules == ["full first_turn", "full asked", "names"]
    assert (await platform.list_event_names(session)).count("schemas-requested") == 1


async def test_u6_purge_discloses_tools_in_full_for_one_turn(platform: AgentService) -> None:
    session = await platform.open_session()
    for _ in range(2):
        await run_short_turn(platform, session)
    assert (await platform.http.post(f"/v1/sessions/{session}/purge")).status_code == 200
    for _ in range(2):
        await run_short_turn(platform, session)
    rules = [rule for rule, _ in await list_tool_disclosures(platform, session)]
    assert rules == ["full first_turn", "names", "full purged", "names"]


async def test_u6_diff_names_events_that_changed_tool_disclosure(
    platform: AgentService,
) -> None:
    session = await platform.open_session()
    for _ in range(2):
        await run_short_turn(platform, session)
    await platform.http.post(f"/v1/sessions/{session}/schemas")
    await run_short_turn(platform, session)
    because = [
        {
            (reason["what"], by["event"])
            for entry in diff["changes"]
            if entry["layer"] == "tools"
            for reason in entry["because"]
            for by in reason["by"]
        }
        for before, after in (("1.1", "2.1"), ("2.1", "3.1"))
        for diff in [
            await platform.fetch_json(f"/v1/sessions/{session}/calls/{before}/diff/{after}"),
        ]
    ]
    assert because == [{("answered", "turn-completed")}, {("asked", "schemas-requested")}]


async def test_diff_of_two_steps_names_events_of_the_first_steps_result(
    platform: AgentService,
) -> None:
    session = await platform.open_session()
    await platform.complete_turn(session, *TWO_STEP_ANSWERS)
    diff = await platform.fetch_json(f"/v1/sessions/{session}/calls/1.2/diff/1.3")
    events = {
        by["event"] for each in diff["changes"] for reason in each["because"] for by in reason["by"]
    }
    assert events == {"call-completed", "tool-returned"}
    assert all(
        reason["what"] != "unknown" for each in diff["changes"] for reason in each["because"]
    )


async def test_u6_schema_request_without_tools_returns_409(platform: AgentService) -> None:
    session = await platform.open_session()
    refused = await platform.http.post(f"/v1/sessions/{session}/schemas")
    assert (refused.status_code, refused.json()["code"]) == (409, "no-tools")


async def test_u6_ladder_lists_tools_by_name_if_descriptions_do_not_fit(
    platform: AgentService,
) -> None:
    platform.shop.extra_offers = DRAWERS
    limits: dict[str, Any] = {"tools_context": {"tokens": 250, "ladder": [{"condense_tools": {}}]}}
    calls = build_agent_blueprint().model_dump(mode="json", by_alias=True)["calls"]
    calls["plan"]["budget"] = "window"
    budget: dict[str, Any] = {"window": {"tokens": 8_000, "components": limits}}
    session = await platform.open_session(build_agent_blueprint(calls=calls, budget=budget))
    await run_short_turn(platform, session)
    ((rule, tokens),) = await list_tool_disclosures(platform, session)
    assert rule == "condense_tools"
    assert tokens <= 250


async def test_u8_result_of_thousand_rows_is_condensed_below_300_tokens_and_stored_whole(
    platform: AgentService,
) -> None:
    platform.shop.result_text = json.dumps(ROWS)
    session = await platform.open_session()
    await platform.complete_turn(
        session,
        answer_with_plan(("Look.", [])),
        answer_with_tool_calls(("shop_look", {})),
        answer_with_text("Many."),
    )
    (returned,) = await platform.load_events(session, ToolReturned)
    last = (await platform.load_events(session, ContextAssembled))[-1]
    (part,) = [each for each in last.manifest.parts if each.layer == "results"]
    assert part.tokens < 300
    assert (part.treatment, part.rule) == ("condensed", "distil")
    assert part.saved > 10_000
    path = f"/v1/sessions/{session}/calls/{returned.call}/tools/{returned.id}"
    found = await platform.fetch_json(path)
    assert json.loads(found["result"]) == ROWS
    assert compute_digest(found["result"]) == found["digest"] == returned.result
    assert (found["treatment"], found["characters"]) == ("condensed", len(found["result"]))
    assert found["text"] in platform.get_request_texts(2)[0]
    explanation = await platform.fetch_json(f"/v1/sessions/{session}/turns/1/why")
    assert ("results", "distil") in [
        (e["part"]["layer"], e["part"]["rule"]) for e in explanation["parts"]
    ]
    head = (await platform.load_recorded_events(session))[-1].sequence
    growth = await platform.fetch_json("/v1/growth", session=session, min_sequence=head)
    assert growth["calls"][-1]["saved"] == {"distil": part.saved}


async def test_u8_cli_prints_the_whole_tool_result(
    platform: AgentService, capsys: pytest.CaptureFixture[str]
) -> None:
    platform.shop.result_text = json.dumps(ROWS)
    session = await platform.open_session()
    await platform.complete_turn(
        session,
        answer_with_plan(("Look.", [])),
        answer_with_tool_calls(("shop_look", {})),
        answer_with_text("Many."),
    )
    (returned,) = await platform.load_events(session, ToolReturned)
    path = f"/v1/sessions/{session}/calls/{returned.call}/tools/{returned.id}"
    found = await connect_service(platform.http).send(build_read(path, ToolResultView))
    print_answer(found, render_tool_result(found), "table")
    output = " ".join(capsys.readouterr().out.split())
    assert "prompts hold a summary of it" in output
    assert '"name": "thing 999"' in output


async def test_u8_erased_tool_result_returns_410_and_unknown_tool_use_is_refused(
    platform: AgentService,
) -> None:
    session = await platform.open_session()
    await platform.complete_turn(
        session,
        answer_with_plan(("Look.", [])),
        answer_with_tool_calls(("shop_look", {})),
        answer_with_text("Three."),
    )
    (returned,) = await platform.load_events(session, ToolReturned)
    assert returned.result
    path = f"/v1/sessions/{session}/calls/{returned.call}/tools"
    assert (await platform.http.get(f"{path}/nonsense")).json()["code"] == "unknown-tool-use"
    blobs = platform.backend.blobs.blobs
    blob = blobs.pop((platform.gateway.tenant, returned.result))
    response = await platform.http.get(f"{path}/{returned.id}")
    blobs[platform.gateway.tenant, returned.result] = blob
    assert (response.status_code, response.json()["code"]) == (410, "result-gone")


async def test_u14_sessions_of_a_profile_share_tool_catalog_until_a_schema_changes(
    platform: AgentService,
) -> None:
    first, second = await platform.open_session(), await platform.open_session()
    await run_short_turn(platform, first)
    await run_short_turn(platform, second)
    platform.shop.extra_offers = DRAWERS[:1]
    third = await platform.open_session()
    await run_short_turn(platform, third)
    await run_short_turn(platform, first)
    pinned = [await platform.load_events(each, ToolsSnapshotted) for each in (first, second, third)]
    ((one,), (two,), (three,)) = pinned
    assert one == two
    assert three.digest != one.digest
    assert set(three.tools) - set(one.tools) == {"shop_drawer_0"}
    assert "drawer" not in platform.get_request_texts(-2)[0]


async def test_u20_server_prompts_are_listed_unless_excluded(
    platform: AgentService,
) -> None:
    greet = ToolOffer(tool="greet", description="Greets somebody.", schema=SCHEMA, kind="prompt")
    scold = ToolOffer(tool="scold", description="Scolds somebody.", schema=SCHEMA, kind="prompt")
    platform.shop.extra_offers = (greet, scold)
    spec: dict[str, Any] = build_agent_blueprint().model_dump(
        mode="json", by_alias=True, exclude_unset=True
    )
    spec["layers"]["prompts"] = {"prompts": "all", "component": "tools_context"}
    spec["calls"]["plan"]["messages"][0]["system"].append("prompts")
    spec["tools"]["servers"]["shop"] |= {"except": ["scold", "pay"]}
    session = await platform.open_session(
        build_agent_blueprint(**{k: spec[k] for k in ("layers", "calls", "tools")})
    )
    await run_short_turn(platform, session)
    prompt = platform.get_request_texts(0)[0]
    assert prompt.endswith(
        "- shop_greet: Greets somebody.\n    which (string): Which one is meant."
    )
    assert "scold" not in prompt
    assert "pay" not in prompt
    (pinned,) = await platform.load_events(session, ToolsSnapshotted)
    assert (tuple(pinned.tools), pinned.prompts) == (("shop_look", "shop_greet"), ("shop_greet",))
    assert pinned.left_out == {"shop_pay": "among `except`", "shop_scold": "among `except`"}


async def test_u15_prompt_of_profile_without_tools_lists_no_tools(platform: AgentService) -> None:
    spec: dict[str, Any] = build_agent_blueprint().model_dump(
        mode="json", by_alias=True, exclude_unset=True
    )
    spec["profiles"]["agent"]["default"] = False
    profile = {"program": "chat", "call": "plan"}
    spec["profiles"] |= {"chat": profile | {"default": True}, "bare": profile | {"tools": "none"}}
    kind = build_agent_blueprint(profiles=spec["profiles"])
    session = await platform.open_session(kind)
    await platform.complete_turn(session, answer_with_text("Hello."), text="Hi.")
    bare = await platform.open_session(kind, profile="bare")
    await platform.complete_turn(bare, answer_with_text("Hello."), text="Hi.")
    assert "shop_look" in platform.get_request_texts(0)[0]
    assert platform.get_request_texts(1)[0] == "Plan first."
    assert await platform.load_events(bare, ToolsSnapshotted) == []
