"""U23: quotas of users, by month, input and output apart, and requests by hour and day."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tests.agent_programs.agent_service import AgentService, answer_with_plan, answer_with_text

pytestmark = pytest.mark.asyncio(loop_scope="module")


def read_hour() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H")


async def set_quota(platform: AgentService, user: str, **limits: int | None) -> dict[str, Any]:
    answer = await platform.http.put(f"/v1/quotas/{user}", json=limits)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def submit_for(
    platform: AgentService, session: str, user: str, *, key: str | None = None
) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    body = {"text": "What is a log?", "user": user}
    return await platform.http.post(
        f"/v1/sessions/{session}/turns?wait=60", json=body, headers=headers
    )


async def open_chat(platform: AgentService) -> str:
    return await platform.open_shipped_session("uderia", attributes={}, profile="llm_only")


async def test_u23_input_and_output_tokens_are_checked_before_and_recorded_after_a_turn(
    platform: AgentService,
) -> None:
    session = await open_chat(platform)
    quota = await set_quota(platform, "ann", input_tokens=1, output_tokens=None)
    assert quota["period"] == datetime.now(UTC).strftime("%Y-%m")
    assert (quota["allowed"], quota["message"]) == (True, ""), "something is left"
    assert [each["name"] for each in quota["uses"]] == ["input_tokens"], "null is unlimited"
    platform.provider.queue_behaviours(answer_with_text("A thing of the past."))
    assert (await submit_for(platform, session, "ann", key="q-1")).status_code == 200
    calls = await platform.list_calls(session)
    sent = sum(call["input_tokens"] for call in calls)
    received = sum(call["output_tokens"] for call in calls)
    assert sent > 1
    quota = await platform.fetch_json("/v1/quotas/ann")
    assert (quota["input_tokens"], quota["output_tokens"]) == (sent, received)
    assert (quota["unsettled_turns"], quota["allowed"]) == (0, False)
    recorded = await platform.list_event_names(session)
    refused = await submit_for(platform, session, "ann")
    problem = refused.json()
    assert (refused.status_code, problem["code"]) == (429, "quota-exceeded")
    resets = datetime.fromisoformat(problem["quota"]["resets_at"])
    assert (resets.day, resets.hour, resets.minute) == (1, 0, 0)
    written = resets.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert problem["quota"] == {
        "name": "input_tokens",
        "limit": 1,
        "used": sent,
        "reserved": 0,
        "left": 0,
        "resets_at": written,
    }
    assert problem["detail"] == quota["message"]
    assert problem["detail"] == (
        f"nothing is left of 1 input token per month: {sent:,} used; the limit resets at {written}"
    )
    assert problem["fix"] == f"wait until {written}, or have the limit raised"
    seconds = (resets - datetime.now(UTC)).total_seconds()
    assert int(refused.headers["Retry-After"]) >= seconds
    assert await platform.list_event_names(session) == recorded
    again = await submit_for(platform, session, "ann", key="q-1")
    assert again.json()["turn"] == 1, "a request that is repeated is no other turn"
    await set_quota(platform, "ann", input_tokens=None, output_tokens=received)
    refused = await submit_for(platform, session, "ann")
    assert refused.json()["quota"]["name"] == "output_tokens"
    platform.provider.queue_behaviours(answer_with_text("Ben has no quota."))
    assert (await submit_for(platform, session, "ben")).status_code == 200


async def test_u23_small_quota_allows_a_turn_that_may_use_far_more(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={}, profile="tool_enabled")
    await set_quota(platform, "dee", input_tokens=10_000, output_tokens=10_000)
    platform.provider.queue_behaviours(answer_with_plan(), answer_with_text("A thing."))
    assert (await submit_for(platform, session, "dee")).status_code == 200
    quota = await platform.fetch_json("/v1/quotas/dee")
    assert quota["allowed"] is True
    (sent, _) = quota["uses"]
    assert sent["left"] == 10_000 - sent["used"] > 0


@pytest.mark.parametrize("limit", ["requests_per_hour", "requests_per_day"])
async def test_u23_requests_are_counted_by_hour_and_by_day(
    platform: AgentService, limit: str
) -> None:
    session = await open_chat(platform)
    for user in (f"{limit}-1", f"{limit}-2", f"{limit}-3"):
        hour = read_hour()
        await set_quota(platform, user, **{limit: 2})
        for _ in range(2):
            platform.provider.queue_behaviours(answer_with_text("Yes."))
            assert (await submit_for(platform, session, user)).status_code == 200
        platform.provider.clear_exchanges()
        quota = await platform.fetch_json(f"/v1/quotas/{user}")
        if read_hour() == hour:
            break  # else another hour began meanwhile
    (use,) = quota["uses"]
    assert (use["name"], use["used"], use["left"]) == (limit, 2, 0)
    resets = datetime.fromisoformat(use["resets_at"])
    assert (resets - datetime.fromisoformat(f"{hour}:00:00+00:00")).total_seconds() <= 86_400
    assert quota["allowed"] is False
    # It is refused as long as the hour or the day lasts, so the limit is lowered for the proof.
    await set_quota(platform, user, **{limit: 0})
    refused = await submit_for(platform, session, user)
    assert (refused.status_code, refused.json()["quota"]["name"]) == (429, limit)


async def test_u23_quota_edit_is_applied_once_per_idempotency_key(platform: AgentService) -> None:
    async def edit(limit: int) -> httpx.Response:
        key = {"Idempotency-Key": "edit-1"}
        body = {"requests_per_day": limit}
        return await platform.http.put("/v1/quotas/eve", json=body, headers=key)

    first = await edit(5)
    await set_quota(platform, "eve", requests_per_day=6)
    again = await edit(5)
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json()["limits"]["requests_per_day"] == 6, "it is not set a second time"
    assert (await edit(7)).status_code == 409


async def test_u23_quotas_are_listed_and_accept_any_printable_user_name(
    platform: AgentService,
) -> None:
    await set_quota(platform, "team%2Fcleo%20d", requests_per_day=7)
    quotas = (await platform.fetch_json("/v1/quotas"))["quotas"]
    (cleo,) = [each for each in quotas if each["user"] == "team/cleo d"]
    assert (cleo["requests_per_day"], cleo["input_tokens"]) == (7, None)
    await set_quota(platform, "team%2Fcleo%20d")
    quotas = (await platform.fetch_json("/v1/quotas"))["quotas"]
    assert "team/cleo d" not in [each["user"] for each in quotas]
