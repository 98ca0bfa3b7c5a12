"""The memory of an agent over HTTP: exclusions, restores, a purge and summaries."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent_programs.agent_harness import build_agent_blueprint, build_loop_blueprint
from tests.agent_programs.agent_service import (
    MODEL,
    TWO_STEP_ANSWERS,
    AgentService,
    answer_with_plan,
    answer_with_text,
)
from tests.support.processes.process_host import run_turnlog
from tests.support.servers.model_behaviours import ModelRefusal
from turnlog.client import (
    AsyncTurnlogClient,
    ExclusionPreviewView,
    TurnlogClient,
    TurnRangeView,
)
from turnlog.events.model.memory_events import HistorySummarised, SummaryFailed
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGE = "So it goes. " * 180
"""540 tokens of four characters: four turns exceed 4,000 tokens, three do not."""


def build_remembering_agent(**summary: int) -> Blueprint:
    """Return an agent whose planner sees earlier turns that fit, and summaries of older ones."""
    plain = build_agent_blueprint().model_dump(mode="json", by_alias=True, exclude_unset=True)
    older: list[Any] = [{"history": "older"}, {"user": ["sum_up"]}]
    return build_agent_blueprint(
        blueprint="remembering",
        layers={**plain["layers"], "sum_up": {"text": "Sum up what was said, in a sentence."}},
        calls={**plain["calls"], "summarise": {"messages": older}},
        history={
            "recent": {"summary": {"call": "summarise", **summary}},
            "older": {"of": "selected"},
        },
    )


async def run_long_turn(platform: AgentService, session: str, number: int, *before: Any) -> None:  # noqa: ANN401
    """Run a turn without steps whose text and reply are one page each."""
    text = f"{number}: {PAGE}"
    await platform.complete_turn(
        session, *before, answer_with_plan(), answer_with_text(f"To {number}: {PAGE}"), text=text
    )


async def fetch_plan_window(
    platform: AgentService, session: str, **query: object
) -> list[dict[str, str]]:
    """Return the messages of the next plan call."""
    path = f"/v1/sessions/{session}/window"
    return list((await platform.fetch_json(path, call="plan", **query))["messages"])


async def test_u4_excluded_turn_leaves_every_window_until_restored_but_never_the_audit(
    platform: AgentService,
) -> None:
    session = await platform.open_session()
    await platform.complete_turn(session, *TWO_STEP_ANSWERS)
    await platform.complete_turn(
        session, answer_with_plan(), answer_with_text("Goodbye."), text="Thanks."
    )
    before = await fetch_plan_window(platform, session)
    off = f"/v1/sessions/{session}/turns/1/exclusion"
    assert (await platform.http.put(off)).status_code == 200
    assert "hammer" not in str(await fetch_plan_window(platform, session))
    await platform.complete_turn(
        session, answer_with_plan(), answer_with_text("Well."), text="And now?"
    )
    assert all(
        "hammer" not in text for number in (6, 7) for text in platform.get_request_texts(number)
    )
    turns = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert (turns[0]["text"], turns[0]["excluded"]) == ("Get me a hammer.", True)
    assert "3 in stock" in str((await platform.fetch_prompt(session, "1.4"))["messages"])
    assert (await platform.http.delete(off)).status_code == 200
    assert (await fetch_plan_window(platform, session))[: len(before)] == before


async def test_u5_purge_empties_window_discloses_tools_in_full_and_keeps_the_audit(
    platform: AgentService,
) -> None:
    session = await platform.open_session()
    await platform.complete_turn(session, *TWO_STEP_ANSWERS)
    await platform.complete_turn(
        session, answer_with_plan(), answer_with_text("Goodbye."), text="Thanks."
    )
    assert "Looks for a thing." not in platform.get_request_texts(4)[0]
    purged = await platform.http.post(f"/v1/sessions/{session}/purge")
    assert purged.status_code == 200
    await platform.complete_turn(
        session, answer_with_plan(), answer_with_text("Hello."), text="Hi."
    )
    assert platform.get_request_texts(6)[1:] == ["Hi."]
    assert "Looks for a thing." in platform.get_request_texts(6)[0]
    assert platform.get_request_texts(7)[1:] == ["Hi."]
    turns = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert [turn["reply"] for turn in turns] == ["It is yours.", "Goodbye.", "Hello."]
    assert [turn["purged"] for turn in turns] == [True, True, False]
    report = await platform.fetch_json(f"/v1/sessions/{session}/verify")
    assert report["verified"], report
    again = (await platform.http.post(f"/v1/sessions/{session}/purge")).json()["sequence"]
    assert (await platform.http.post(f"/v1/sessions/{session}/purge")).json()["sequence"] == again


async def test_u10_above_4000_tokens_last_six_messages_stay_and_older_ones_are_summarised(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_remembering_agent())
    for number in (1, 2, 3, 4):
        await run_long_turn(platform, session, number)
    before = await fetch_plan_window(platform, session)
    await run_long_turn(platform, session, 5, answer_with_text("They wrote page after page."))
    (made,) = await platform.load_events(session, HistorySummarised)
    messages = platform.bodies[8]["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant", "user"]
    prompt = await platform.fetch_prompt(session, "5.1")
    assert (made.call, made.inputs) == ("5.1", prompt["digest"])
    assert made.model == MODEL
    assert made.cost.micro_dollars is not None
    plan = platform.bodies[9]["messages"]
    roles = ["system", *["user", "assistant"] * 3, "user"]
    assert [each["role"] for each in plan] == roles
    assert plan[0]["content"].endswith("\n\nThey wrote page after page.")
    await undo_summary(platform, session, before)


async def test_input_of_a_summary_call_is_not_counted_as_history_growth(
    platform: AgentService,
) -> None:
    session = await platform.open_session(
        build_remembering_agent(above_tokens=3_000, keep_messages=2)
    )
    for number in (1, 2, 3):
        await run_long_turn(platform, session, number)
    await run_long_turn(platform, session, 4, answer_with_text("They wrote page after page."))
    head = (await platform.load_recorded_events(session))[-1].sequence
    growth = await platform.fetch_json("/v1/growth", session=session, min_sequence=head)
    history = {each["call"]: each["components"]["history_tokens"] for each in growth["calls"]}
    assert history["4.1"] > history["4.2"] > 0
    assert growth["history_growth"] == history["4.2"] / 3


@pytest.mark.slow("turns of several calls run over HTTP")
async def test_exclusion_preview_lists_summaries_that_it_undoes(
    platform: AgentService,
) -> None:
    session = await platform.open_session(
        build_remembering_agent(above_tokens=3_000, keep_messages=2)
    )
    for number in range(1, 7):
        summary = (answer_with_text(f"Up to {number}."),) if number in {4, 6} else ()
        await run_long_turn(platform, session, number, *summary)
    path = f"/v1/sessions/{session}"
    first, second = (await platform.fetch_json(f"{path}/summaries"))["summaries"]
    assert (first["turns"], second["turns"]) == (
        [{"first": 1, "last": 2}],
        [{"first": 1, "last": 4}],
    )
    both = await platform.fetch_json(f"{path}/turns/2/exclusion")
    assert both["undone"] == [second, first]
    assert both["uncovered"] == [
        {"view": "recent", "turns": [{"first": 1, "last": 1}, {"first": 3, "last": 4}]}
    ]
    assert both["cost"]["micro_dollars"] == first["micro_dollars"] + second["micro_dollars"]
    latest = await platform.fetch_json(f"{path}/turns/3/exclusion")
    assert latest["undone"] == [second]
    assert latest["uncovered"] == [{"view": "recent", "turns": [{"first": 4, "last": 4}]}]
    assert (await platform.fetch_json(f"{path}/turns/6/exclusion"))["undone"] == []
    assert (await platform.http.get(f"{path}/turns/7/exclusion")).json()["code"] == "unknown-turn"

    assert await fetch_client_previews(platform, session, 2) == [both, both]

    here = ("--url", str(platform.http.base_url).rstrip("/"))
    shown = (await run_turnlog("summaries", session, *here))[1].splitlines()
    (heading,) = [line for line in shown if "turns 1 to 2" in line]
    assert heading.endswith(f"continued by {second['sequence']}")
    assert sum("continued by" in line for line in shown) == 1

    words = ("exclude", session, "3", *here)
    code, out, err = await run_turnlog(*words, "--dry-run")
    assert (code, err) == (0, "")
    assert "windows of recent show again turn 4" in out
    assert (await platform.fetch_json(f"{path}/summaries"))["summaries"] == [first, second]
    code, out, err = await run_turnlog(*words)
    assert (code, err) == (0, "")
    assert (await platform.fetch_json(f"{path}/summaries"))["summaries"] == [first]
    assert (await platform.fetch_json(f"{path}/turns/3/exclusion"))["undone"] == []


async def fetch_client_previews(
    platform: AgentService, session: str, turn: int
) -> list[dict[str, Any]]:
    """Return an exclusion's preview as both Python clients read it."""
    address = platform.gateway.address

    def fetch_blocking() -> ExclusionPreviewView:
        with TurnlogClient(address) as turnlog:
            return turnlog.use_session(session).preview_exclusion(turn)

    async with AsyncTurnlogClient(address) as turnlog:
        awaited = await turnlog.use_session(session).preview_exclusion(turn)
    (uncovered,) = awaited.uncovered
    assert uncovered.turns == (TurnRangeView(first=1, last=1), TurnRangeView(first=3, last=4))
    blocking = await asyncio.to_thread(fetch_blocking)
    return [answer.model_dump(mode="json") for answer in (awaited, blocking)]


async def undo_summary(platform: AgentService, session: str, before: list[dict[str, str]]) -> None:
    """Undo the summary and require the former window with the newer turn."""
    path = f"/v1/sessions/{session}/summaries"
    (summary,) = (await platform.fetch_json(path))["summaries"]
    assert summary["turns"] == [{"first": 1, "last": 1}]
    undo = f"{path}/{summary['sequence']}/undo"
    assert (await platform.http.post(undo)).status_code == 200
    since = [f"5: {PAGE}", f"To 5: {PAGE}"]
    after = await fetch_plan_window(platform, session)
    assert after[: len(before)] == before
    assert [each["content"] for each in after[len(before) :]] == since
    assert (await platform.http.post(undo)).json()["code"] == "unknown-summary"


async def test_u10_failed_summary_does_not_block_the_turn(platform: AgentService) -> None:
    session = await platform.open_session(build_remembering_agent())
    for number in (1, 2, 3, 4):
        await run_long_turn(platform, session, number)
    await run_long_turn(platform, session, 5, ModelRefusal(status=500))
    (failed,) = await platform.load_events(session, SummaryFailed)
    assert failed.code == "server_error"
    assert platform.get_request_texts(9)[1] == f"1: {PAGE}"
    await run_long_turn(platform, session, 6, answer_with_text("They wrote page after page."))
    assert platform.get_request_texts(12)[0].endswith("\n\nThey wrote page after page.")


async def test_cli_excludes_restores_and_redacts_a_turn(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_loop_blueprint())
    await platform.complete_turn(session, answer_with_text("Your card is 4111."), text="My card?")
    here = ("--url", str(platform.http.base_url).rstrip("/"))

    async def read_turn() -> dict[str, Any]:
        (turn,) = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
        return dict[str, Any](turn)

    for command, is_excluded in (("exclude", True), ("restore", False)):
        assert (await run_turnlog(command, session, "1", *here))[::2] == (0, "")
        assert (await read_turn())["excluded"] is is_excluded
    words = ("redact", session, "1", "--reason", "a card number", "--replacement", "(gone)")
    assert (await run_turnlog(*words, *here))[::2] == (0, "")
    turn = await read_turn()
    assert (turn["text"], turn["reply"], turn["reason"]) == ("My card?", "(gone)", "a card number")
