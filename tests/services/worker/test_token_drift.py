"""Token counts that differ from the provider's: warned of once after twenty calls."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tests.support.sessions.puppet_model import build_finish
from tests.support.sessions.session_harness import SessionHarness
from turnlog.events.model.call_events import find_attempt_end
from turnlog.events.model.turn_events import TurnFailed
from turnlog.services.worker.model.model_types import ModelFailure, ModelUsage
from turnlog.services.worker.turn_runner import TurnRunner


async def run_counted_calls(
    house: SessionHarness, worker: TurnRunner, calls: int, factor: float
) -> list[object]:
    """Make so many calls of one length, each counted by the provider; gives the warnings."""
    with capture_logs() as log_lines:
        for number in range(calls):
            await house.open_session(f"s{number}")
            event = await house.submit_turn("Hi there, what is new?", f"s{number}")
            # Nine characters of rules are three tokens by four, the question six.
            house.model.end = build_finish(usage=ModelUsage(round(9 * factor), 5))
            await house.run_turn(event, worker)
    return [each for each in log_lines if each["event"] == "token-count-drift"]


async def test_large_token_count_drift_is_warned_of_once() -> None:
    house = SessionHarness()
    (warning,) = await run_counted_calls(house, house.build_worker(), 60, 1.4)
    assert warning == {
        "event": "token-count-drift",
        "log_level": "warning",
        "model": "puppet/one",
        "counter": "chars/4",
        "provider_counts": "1.44 times as many",
        "calls": 20,
    }


@pytest.mark.parametrize(("calls", "factor"), [(19, 2.0), (30, 1.0)])
async def test_few_calls_or_an_accurate_count_cause_no_drift_warning(
    calls: int, factor: float
) -> None:
    house = SessionHarness()
    assert await run_counted_calls(house, house.build_worker(), calls, factor) == []


async def test_prompt_too_long_for_its_model_fails_with_counts_and_drift() -> None:
    house = SessionHarness()
    worker = house.build_worker()
    await run_counted_calls(house, worker, 3, 2.0)
    await house.open_session("long")
    house.model.scripts = [[ModelFailure("context_overflow", "never copied")]]
    await house.run_turn(await house.submit_turn("Hi there, what is new?", "long"), worker)
    failed = house.list_events("long")[-1].event
    assert isinstance(failed, TurnFailed)
    assert (failed.code, failed.retryable) == ("context_overflow", False)
    assert failed.detail == (
        "the provider refused it as too long, and no step shortens it: "
        "9 tokens do not fit the 8 that the model has room for: "
        "rules 3 (always kept), input 6 (always kept)"
    )
    refused = find_attempt_end(house.list_events("long")[-4].event)
    assert refused is not None
    assert refused.fault is not None
    assert refused.fault.detail == (
        "too long for puppet/one: 9 tokens by chars/4, a budget of 1000; "
        "the provider counts 2.00 times as many"
    )
