"""U23: quotas of users, by month, input and output apart, and requests by hour and day."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tests.agent_programs.agent_service import AgentService, answer_with_text

pytestmark = pytest.mark.asyncio(loop_scope="module")

TURN = (16_000, 8_192)
"""What a turn of the shipped chat profile may take: a reply and a summary of 8,000 tokens each,
and two answers of 4,096.
"""


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


async def test_u23_tokens_are_checked_before_and_recorded_after_input_and_output_apart(
    platform: AgentService,
) -> None:
    session = await open_chat(platform)
    quota = await set_quota(platform, "ann", input_tokens=TURN[0], output_tokens=None)
    assert quota["period"] == datetime.now(UTC).strftime("%Y-%m")
    assert (quota["allowed"], quota["message"]) == (True, "")
    assert [each["name"] for each in quota["uses"]] == ["input_tokens"], "null is unlimited"
    platform.provider.queue_behaviours(answer_with_text("A thing of the past."))
    assert (await submit_for(platform, session, "ann", key="q-1")).status_code == 200
    calls = await platform.list_calls(session)
    sent = sum(call["input_tokens"] for call in calls)
    received = sum(call["output_tokens"] for call in calls)
    assert sent > 0
    quota = await platform.fetch_json("/v1/quotas/ann", input_tokens=TURN[0])
    assert (quota["input_tokens"], quota["output_tokens"]) == (sent, received)
    assert quota["unsettled_turns"] == 0
    assert quota["allowed"] is False
    assert f"the turn may take {TURN[0]} input tokens" in quota["message"]
    recorded = await platform.list_event_names(session)
    refused = await submit_for(platform, session, "ann")
    problem = refused.json()
    assert (refused.status_code, problem["code"]) == (429, "quota-exceeded")
    left = TURN[0] - sent
    assert problem["quota"] == {
        "name": "input_tokens",
        "limit": TURN[0],
        "used": sent,
        "reserved": 0,
        "left": left,
        "requested": TURN[0],
        "resets_at": problem["quota"]["resets_at"],
    }
    resets = datetime.fromisoformat(problem["quota"]["resets_at"])
    assert (resets.day, resets.hour, resets.minute) == (1, 0, 0)
    seconds = (resets - datetime.now(UTC)).total_seconds()
    assert int(refused.headers["Retry-After"]) >= seconds
    assert await platform.list_event_names(session) == recorded
    again = await submit_for(platform, session, "ann", key="q-1")
    assert again.json()["turn"] == 1, "a request that is repeated is no other turn"
    await set_quota(platform, "ann", input_tokens=None, output_tokens=TURN[1] - 1)
    refused = await submit_for(platform, session, "ann")
    assert refused.json()["quota"]["name"] == "output_tokens"
    platform.provider.queue_behaviours(answer_with_text("Ben has no quota."))
    assert (await submit_for(platform, session, "ben")).status_code == 200


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


async def test_u23_quotas_are_listed_and_a_user_may_have_any_printable_name(
    platform: AgentService,
) -> None:
    await set_quota(platform, "team%2Fcleo%20d", requests_per_day=7)
    quotas = (await platform.fetch_json("/v1/quotas"))["quotas"]
    (cleo,) = [each for each in quotas if each["user"] == "team/cleo d"]
    assert (cleo["requests_per_day"], cleo["input_tokens"]) == (7, None)
    await set_quota(platform, "team%2Fcleo%20d")
    quotas = (await platform.fetch_json("/v1/quotas"))["quotas"]
    assert "team/cleo d" not in [each["user"] for each in quotas]
