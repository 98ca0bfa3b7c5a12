"""Calls of a long session have the same explanation from few events as from all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from tests.services.sessions.test_time_travel import (
    EventCountingLog,
    FakeReadModels,
    build_time_travel,
    map_contexts,
    require_counting_log,
)
from tests.support.sessions.session_harness import TENANT, SessionHarness
from turnlog.projections.audit.diff.call_diff import CallDiff, compare_calls
from turnlog.projections.audit.explain.call_snapshot import build_call_snapshot
from turnlog.projections.audit.explain.turn_explanation import (
    TurnExplanation,
    explain_call,
    explain_turn,
)
from turnlog.projections.audit.record.partial_log import build_complete_log
from turnlog.projections.session.commands import ExcludeTurn, RestoreTurn
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.services.audit.explain_service import EvidenceBySession, ExplainService
from turnlog.services.command_handling.idempotent_commands import CommandMetadata

TURNS = 60

LONG = "A long one. " * 500
"""A text of which a window holds few."""

ASKED = (1, 14, 15, 31, 45, 60)

PAIRS = ((1, 14), (14, 15), (15, 60), (31, 45), (60, 1), (45, 31), (60, 59))


@pytest.fixture(scope="module")
def house() -> SessionHarness:
    return asyncio.run(run_long_session())


async def run_long_session() -> SessionHarness:
    """Run a session in which old turns are excluded, restored and redacted."""
    house = SessionHarness(log=EventCountingLog())
    await house.open_session()
    worker = house.build_worker()
    for turn in range(1, TURNS + 1):
        house.model.scripts.append([f"{turn}: {LONG}"])
        await house.run_turn(await house.submit_turn(f"Turn {turn}"), worker)
        for command in list_turn_commands(turn):
            await house.sessions.handle(TENANT, "s", command, CommandMetadata("tester"))
    return house


def list_turn_commands(turn: int) -> Sequence[ExcludeTurn | RestoreTurn | RedactReply]:
    match turn % 12:
        case 3:
            return (ExcludeTurn(turn - 1), ExcludeTurn(max(1, turn - 12)))
        case 5:
            return (RestoreTurn(turn - 3),)
        case 8:
            return (RedactReply(turn, "asked for", "operator", "(Withheld.)"),)
        case 10:
            return (RedactReply(max(1, turn - 9), "asked for", "operator", "(Gone.)"),)
        case _:
            return ()


def build_explain_service(house: SessionHarness) -> ExplainService:
    rows = FakeReadModels(
        {call: recorded.sequence for call, (recorded, _) in map_contexts(house).items()}
    )
    return ExplainService(build_time_travel(house, rows), TENANT, asyncio.Lock())


def build_call_explainer(call: str) -> Callable[[EvidenceBySession], TurnExplanation]:
    return lambda by: explain_call(by["s"], call)


def build_turn_explainer(turn: int) -> Callable[[EvidenceBySession], TurnExplanation]:
    return lambda by: explain_turn(by["s"], turn)


def build_call_comparison(before: str, after: str) -> Callable[[EvidenceBySession], CallDiff]:
    return lambda by: compare_calls(
        build_call_snapshot(by["s"], before), build_call_snapshot(by["s"], after)
    )


async def test_explanation_from_partial_log_equals_explanation_from_complete_log(
    house: SessionHarness,
) -> None:
    some, everything = build_explain_service(house), build_complete_log(house.list_events())
    for turn in ASKED:
        call = f"{turn}.1"
        known = await some.load_evidence("s", [call])
        explanation = await some.compute_answer({"s": known}, build_call_explainer(call))
        assert explanation == explain_call(everything, call)
        known = await some.load_turn_evidence("s", turn)
        explanation = await some.compute_answer({"s": known}, build_turn_explainer(turn))
        assert explanation == explain_turn(everything, turn)


async def test_call_comparison_from_partial_log_equals_comparison_from_complete_log(
    house: SessionHarness,
) -> None:
    some, everything = build_explain_service(house), build_complete_log(house.list_events())
    for one, other in PAIRS:
        calls = (f"{one}.1", f"{other}.1")
        known = await some.load_evidence("s", calls)
        comparison = await some.compute_answer({"s": known}, build_call_comparison(*calls))
        assert comparison == compare_calls(
            *(build_call_snapshot(everything, each) for each in calls)
        )


async def test_explaining_call_of_long_session_reads_less_than_half_of_its_events(
    house: SessionHarness,
) -> None:
    some = build_explain_service(house)
    require_counting_log(house).read = 0
    known = await some.load_evidence("s", ["49.1"])
    explanation = await some.compute_answer({"s": known}, lambda by: explain_call(by["s"], "49.1"))
    assert explanation.call == "49.1"
    assert require_counting_log(house).read < len(house.list_events()) / 2


async def test_evidence_shared_by_two_calls_is_read_once(house: SessionHarness) -> None:
    some, log = build_explain_service(house), require_counting_log(house)
    counts: list[int] = []
    for calls in (["49.1"], ["49.1", "49.1"]):
        log.read = 0
        await some.load_evidence("s", calls)
        counts.append(log.read)
    log.read = 0
    await some.time_travel.find_call(TENANT, "s", "49.1")
    once, twice = counts
    assert twice - once == log.read < once


async def test_turn_missing_from_read_models_is_still_explained(
    house: SessionHarness,
) -> None:
    some = ExplainService(build_time_travel(house), TENANT, asyncio.Lock())
    known = await some.load_turn_evidence("s", 31)
    explanation = await some.compute_answer({"s": known}, lambda by: explain_turn(by["s"], 31))
    assert explanation == explain_turn(build_complete_log(house.list_events()), 31)
