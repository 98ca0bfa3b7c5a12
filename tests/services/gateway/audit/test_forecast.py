"""The forecast over HTTP: the turns until a cut, its rule, and what the back-test found."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.services.gateway.gateway_service import RunningGateway
from turnlog.services.use_cases.prompts.session_forecasts import BACKTEST_FILE, ForecastCache

# The rows of other sessions count, and tests share the server.
in_memory = pytest.mark.parametrize("log_url", ["memory"], indirect=True)


async def run_turns(stand: RunningGateway, session: str, turns: range) -> None:
    for turn in turns:
        await stand.submit_and_answer(session, f"{turn:010}", "r" * 10)


async def fetch_forecast(stand: RunningGateway, session: str) -> dict[str, Any]:
    return dict(await stand.fetch_json(f"/v1/sessions/{session}/forecast"))


async def wait_for_rows(stand: RunningGateway, session: str) -> None:
    head = (await stand.fetch_json(f"/v1/sessions/{session}"))["sequence"]
    await stand.fetch_json(f"/v1/sessions/{session}/calls", min_sequence=head)


@in_memory
async def test_cut_is_forecast_with_its_rule_and_comes_then(stand: RunningGateway) -> None:
    session = await stand.open_session("cutting")
    await run_turns(stand, session, range(1, 6))
    found = await fetch_forecast(stand, session)
    assert found["turns"]["p10"] <= found["turns"]["p50"] == 6 <= found["turns"]["p90"]
    words = "drop_oldest_pairs is expected to cut recent to fit the budget in 6 turns"
    assert found["sentence"].startswith(words)
    expected = found["expected"]
    assert (expected["rule"], expected["on"], expected["limit"]) == (
        "drop_oldest_pairs",
        "recent",
        200,
    )
    assert (found["turn"], found["own_turns"], found["other_sessions"]) == (5, 5, 0)
    assert (found["tokens_per_turn"], found["silence"]) == (20, None)
    assert found["next_turns"][0] == {"turn": 6, "p10": 119, "p50": 119, "p90": 119}
    await run_turns(stand, session, range(6, 12))
    cut = [await fetch_steps(stand, session, turn) for turn in range(6, 12)]
    assert cut == [[], [], [], [], [], ["drop_oldest_pairs"]]


async def fetch_steps(stand: RunningGateway, session: str, turn: int) -> list[str]:
    prompt = await stand.fetch_json(f"/v1/sessions/{session}/calls/{turn}.1/prompt")
    return [each["step"] for each in prompt["manifest"]["steps"]]


@in_memory
async def test_error_beside_a_forecast_is_what_the_back_test_wrote(stand: RunningGateway) -> None:
    session = await stand.open_session("cutting")
    found = await fetch_forecast(stand, session)
    assert (found["silence"], found["turns"], found["runs"]) == ("no-turns", None, 0)
    assert found["sentence"].startswith("Nothing can be said yet: ")
    written = json.loads(BACKTEST_FILE.read_text())
    assert found["measured"] == {
        "sessions": written["sessions"],
        "forecasts": written["all"]["reached"],
        **{name: written["all"][name] for name in ("median_error", "p90_error", "coverage")},
    }


@in_memory
async def test_new_session_is_forecast_from_others_of_its_blueprint(stand: RunningGateway) -> None:
    other = await stand.open_session("cutting")
    await run_turns(stand, other, range(1, 8))
    unrelated = await stand.open_session("clerk")
    await stand.submit_and_answer(unrelated, "File it", "Filed.")
    for each in (other, unrelated):
        await wait_for_rows(stand, each)
    found = await fetch_forecast(stand, await stand.open_session("cutting"))
    assert (found["own_turns"], found["other_turns"], found["other_sessions"]) == (0, 7, 1)
    assert found["turns"]["p50"] == 11


@in_memory
async def test_latest_events_suffice_for_a_long_session(stand: RunningGateway) -> None:
    session = await stand.open_session("cutting")
    await run_turns(stand, session, range(1, 26))
    whole = await fetch_forecast(stand, session)
    use_case = stand.dependencies.use_cases.forecasts
    few = replace(use_case, max_own_events=20, cache=ForecastCache())
    found = await few.forecast_session(stand.tenant, session)
    assert found.own_turns < whole["own_turns"] == 25
    assert found.turns is not None
    assert found.turns.p50 == whole["turns"]["p50"] == 1, "cut at 11, 14, 17, 20 and 23"


@in_memory
async def test_forecast_is_made_once_for_the_same_record(stand: RunningGateway) -> None:
    session = await stand.open_session("cutting")
    await run_turns(stand, session, range(1, 4))
    cache = stand.dependencies.use_cases.forecasts.cache
    first = await fetch_forecast(stand, session)
    made = len(cache.forecasts)
    assert await fetch_forecast(stand, session) == first
    assert len(cache.forecasts) == made
    await run_turns(stand, session, range(4, 5))
    assert (await fetch_forecast(stand, session))["turns"]["p50"] == first["turns"]["p50"] - 1
