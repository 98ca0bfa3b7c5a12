"""The overview answers in one request what growth, usage and the lists say of all sessions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.services.gateway.gateway_service import MODEL, RunningGateway
from turnlog.services.worker.model.model_types import ModelFailure

# The lag counts the events of all tenants, and tests share the server.
in_memory = pytest.mark.parametrize("log_url", ["memory"], indirect=True)

FIGURES = (
    *("calls", "tokens", "components", "rules", "caches"),
    *("input_tokens", "cached_tokens", "cost"),
)


async def answer_turns(stand: RunningGateway, *texts: str) -> str:
    session = await stand.open_session()
    for text in texts:
        await stand.submit_and_answer(session, text, "Filed.")
    await wait_for_rows(stand, session)
    return session


async def wait_for_rows(stand: RunningGateway, session: str) -> None:
    """Wait until the rows have every event of a session."""
    head = (await stand.fetch_json(f"/v1/sessions/{session}"))["sequence"]
    await stand.fetch_json(f"/v1/sessions/{session}/calls", min_sequence=head)


def choose_figures(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: group[name] for name in ("key", "at", *FIGURES)} for group in groups]


@in_memory
async def test_overview_has_the_figures_of_growth_and_usage(stand: RunningGateway) -> None:
    await answer_turns(stand, "File it", "And this?")
    await answer_turns(stand, "Another one")
    found = await stand.fetch_json("/v1/overview")
    since = found["since"]
    hours = await stand.fetch_json("/v1/growth", bucket="hour", since=since)
    versions = await stand.fetch_json("/v1/growth", group_by="version", since=since)
    assert choose_figures(found["series"]) == choose_figures(hours["groups"])
    assert choose_figures(found["versions"]) == choose_figures(versions["groups"])
    assert sum(hour["calls"] for hour in found["series"]) == 3
    used = (await stand.fetch_json("/v1/usage", since=since))["total"]
    tiles = found["tiles"]
    assert [tiles["input_tokens"], tiles["cached_tokens"]] == [
        used["input_tokens"],
        used["cached_tokens"],
    ]
    assert tiles["turns_in_flight"] == used["open"] == 0
    assert tiles["turns_per_minute"] == used["turns"] / 5
    assert tiles["failed_last_hour"] == used["failed"] == 0
    assert (tiles["stopped_sessions"], tiles["lag"], found["failures"]) == (0, 0, [])
    (model,) = found["slow"]
    assert (model["model"], model["attempts"], model["p95_ms"]) == (MODEL, 3, tiles["p95_ms"])


async def test_overview_since_a_later_time_has_no_earlier_calls(stand: RunningGateway) -> None:
    await answer_turns(stand, "File it")
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    found = await stand.fetch_json("/v1/overview", since=later)
    assert (found["series"], found["versions"], found["failures"]) == ([], [], [])
    assert found["tiles"]["input_tokens"] == 0
    assert found["tiles"]["cost_today"]["micro_dollars"] == 0
    # What is the case now does not depend on it.
    assert found["tiles"]["turns_per_minute"] == 1 / 5


async def test_failed_turns_are_counted_by_code(stand: RunningGateway) -> None:
    session = await answer_turns(stand, "File it")
    stand.model.scripts.append([ModelFailure("bad_request", "no such thing")])
    form = {"text": "And this?"}
    failed = await stand.http.post(f"/v1/sessions/{session}/turns", params={"wait": 30}, json=form)
    assert failed.json()["status"] == "failed"
    await wait_for_rows(stand, session)
    found = await stand.fetch_json("/v1/overview")
    (failure,) = found["failures"]
    by_code = (await stand.fetch_json("/v1/usage", group_by="failure"))["groups"]
    assert [failure["code"], 1] in [[each["group"], each["failed"]] for each in by_code]
    assert (failure["turns"], found["tiles"]["failed_last_hour"]) == (1, 1)


async def test_sessions_nearest_to_their_budget_come_first(stand: RunningGateway) -> None:
    short = await answer_turns(stand, "File it")
    long = await answer_turns(stand, "And this? " * 30)
    closed = await answer_turns(stand, "Close it. " * 90)
    await stand.http.post(f"/v1/sessions/{closed}/close")
    await wait_for_rows(stand, closed)
    near = (await stand.fetch_json("/v1/overview"))["near"]
    listed = (await stand.fetch_json("/v1/sessions", order="near", open="true"))["sessions"]
    assert [each["session"] for each in near] == [long, short]
    shared = ("session", "title", "blueprint", "version", "budget_share")
    assert near == [{name: each[name] for name in shared} for each in listed]


async def test_turn_that_waits_is_in_flight(idle: RunningGateway) -> None:
    session = await idle.open_session()
    await idle.submit_turn(session, "File it")
    await wait_for_rows(idle, session)
    assert (await idle.fetch_json("/v1/overview"))["tiles"]["turns_in_flight"] == 1
    await idle.http.post(f"/v1/sessions/{session}/cancel")
    await wait_for_rows(idle, session)
    assert (await idle.fetch_json("/v1/overview"))["tiles"]["turns_in_flight"] == 0
