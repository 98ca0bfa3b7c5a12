"""Why a turn of several calls got its answer: its hidden calls and the sources of their text."""

from __future__ import annotations

from functools import partial

from tests.agent_programs.agent_harness import TWO_STEP_SCRIPTS, AgentHarness
from tests.properties.test_partial_log import answer_from_partial_log
from turnlog.projections.audit.diff.call_diff import CallDiff, compare_calls
from turnlog.projections.audit.explain.call_snapshot import build_call_snapshot
from turnlog.projections.audit.explain.turn_explanation import (
    TurnExplanation,
    explain_call,
    explain_turn,
)
from turnlog.projections.audit.record.partial_log import PartialLog, build_complete_log


async def run_purchase() -> AgentHarness:
    shop = await AgentHarness().open_session()
    await shop.run_turn(*TWO_STEP_SCRIPTS)
    return shop


def list_layer_events(explanation: TurnExplanation, layer: str) -> list[list[str]]:
    """Name the events behind each part of a layer that stands."""
    parts = [
        each for each in explanation.parts if each.part.layer == layer and each.part.is_included
    ]
    return [[cause.event for cause in each.by] for each in parts]


async def test_turn_is_explained_by_its_reply_call_and_lists_hidden_calls() -> None:
    shop = await run_purchase()
    explanation = explain_turn(build_complete_log(shop.house.list_events()), 1)
    assert explanation.call == "1.4"
    assert [(each.call, each.kind, each.gave) for each in explanation.calls] == [
        ("1.1", "plan", ("a plan of 2 steps",)),
        ("1.2", "tactic", ("shop_look",)),
        ("1.3", "tactic", ("shop_pay",)),
        ("1.4", "synthesise", ("the reply",)),
    ]
    assert explanation.superseded == ()


async def test_tool_result_is_explained_by_its_request_and_result_events() -> None:
    shop = await run_purchase()
    explanation = explain_turn(build_complete_log(shop.house.list_events()), 1)
    assert list_layer_events(explanation, "results") == [["tool-called", "tool-returned"]] * 2
    assert [each.tool for each in explanation.parts if each.tool] == [
        "shop_look, t1 of call 1.2",
        "shop_pay, t1 of call 1.3",
    ]


async def test_hidden_call_is_explained_by_its_call_id() -> None:
    shop = await run_purchase()
    events = build_complete_log(shop.house.list_events())
    tactic = explain_call(events, "1.2")
    assert list_layer_events(tactic, "goal") == [["step-planned"]]
    offered = [each for each in tactic.parts if each.part.role == "tools"]
    assert [[cause.event for cause in each.by] for each in offered] == [["tools-snapshotted"]]
    assert list_layer_events(explain_call(events, "1.1"), "tools") == [["tools-snapshotted"]]


async def test_explanation_from_partial_log_equals_explanation_from_complete_log() -> None:
    shop = await run_purchase()
    await shop.run_turn(*TWO_STEP_SCRIPTS, text="And another one.")
    events = list(shop.house.list_events())
    everything = build_complete_log(events)
    for call in ("1.2", "2.1", "2.4"):
        explanation = answer_from_partial_log(events, {call}, partial(explain_call, call=call))
        assert explanation == explain_call(everything, call)
    for calls in (("1.1", "2.1"), ("2.3", "2.4"), ("2.2", "1.4")):
        differs = answer_from_partial_log(
            events, {*calls}, partial(diff_calls, before=calls[0], after=calls[1])
        )
        assert differs == diff_calls(everything, *calls)


def diff_calls(known: PartialLog, before: str, after: str) -> CallDiff:
    return compare_calls(build_call_snapshot(known, before), build_call_snapshot(known, after))
