"""Idempotency keys: one request, one effect, one answer, for the life of a session."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import httpx
import pytest
from pydantic import JsonValue

from tests.services.gateway.gateway_service import RunningGateway
from turnlog.contract import question_payloads, session_requests
from turnlog.contract.payload_models import RequestModel
from turnlog.events.content import PlainText
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.services.api import segment_payloads, service_payloads
from turnlog.services.http.request_identity import RequestIdentity
from turnlog.services.identity.principals import Principal

CLERK = {"blueprint": "clerk", "attributes": {"desk": "d-1"}}


def build_key_header(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


async def post_with_key(stand: RunningGateway, path: str, body: Any, key: str) -> httpx.Response:  # noqa: ANN401
    return await stand.http.post(path, json=body, headers=build_key_header(key))


async def fetch_sequence(stand: RunningGateway, session: str) -> int:
    return int((await stand.fetch_json(f"/v1/sessions/{session}"))["sequence"])


async def test_turn_retried_with_its_key_is_recorded_once(idle: RunningGateway) -> None:
    session = await idle.open_session()
    url = f"/v1/sessions/{session}/turns"
    first = await post_with_key(idle, url, {"text": "Hi", "inputs": {}}, "k-1")
    again = await post_with_key(idle, url, {"text": "Hi"}, "k-1")
    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert again.headers["ETag"] == first.headers["ETag"]
    assert await fetch_sequence(idle, session) == 2


async def test_retry_after_other_turns_gets_the_first_response(idle: RunningGateway) -> None:
    session = await idle.open_session()
    url = f"/v1/sessions/{session}/turns"
    first = await post_with_key(idle, url, {"text": "one"}, "k-1")
    await post_with_key(idle, url, {"text": "two"}, "k-2")
    assert (await post_with_key(idle, url, {"text": "one"}, "k-1")).json() == first.json()


async def test_key_reused_with_another_body_is_refused(idle: RunningGateway) -> None:
    session = await idle.open_session()
    url = f"/v1/sessions/{session}/turns"
    await post_with_key(idle, url, {"text": "Hi"}, "k-1")
    answer = await post_with_key(idle, url, {"text": "Ho"}, "k-1")
    assert (answer.status_code, answer.json()["code"]) == (409, "key-reused")
    assert answer.json()["field"] == "Idempotency-Key"
    assert await fetch_sequence(idle, session) == 2


async def test_key_reused_on_another_route_is_refused(stand: RunningGateway) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "Hi", "Hello.")
    url = f"/v1/sessions/{session}/turns/1/exclusion"
    assert (await stand.http.put(url, headers=build_key_header("k-1"))).status_code == 200
    answer = await stand.http.delete(url, headers=build_key_header("k-1"))
    assert (answer.status_code, answer.json()["code"]) == (409, "key-reused")
    assert (await stand.fetch_json(f"/v1/sessions/{session}/history"))["turns"][0][
        "excluded"
    ] is True


async def test_wait_parameter_is_not_part_of_the_request_identity(stand: RunningGateway) -> None:
    session = await stand.open_session()
    url = f"/v1/sessions/{session}/turns"
    stand.model.scripts.append(["Filed."])
    first = await post_with_key(stand, url, {"text": "Hi"}, "k-1")
    again = await post_with_key(stand, f"{url}?wait=30", {"text": "Hi"}, "k-1")
    assert (again.status_code, again.json()["reply"]) == (200, "Filed.")
    assert again.json()["turn"] == first.json()["turn"]


async def test_opening_a_session_twice_with_one_key_creates_one_session(
    idle: RunningGateway,
) -> None:
    first = await post_with_key(idle, "/v1/sessions", CLERK, "k-1")
    again = await post_with_key(idle, "/v1/sessions", CLERK, "k-1")
    assert (again.status_code, again.json()) == (201, first.json())
    other = await post_with_key(idle, "/v1/sessions", CLERK, "k-2")
    assert other.json()["session"] != first.json()["session"]
    answer = await post_with_key(idle, "/v1/sessions", {"blueprint": "assistant"}, "k-1")
    assert (answer.status_code, answer.json()["code"]) == (409, "key-reused")


async def test_fifty_concurrent_retries_create_one_session_and_one_turn(
    idle: RunningGateway,
) -> None:
    async with idle.start_another_gateway() as other:
        both = (idle, other)
        opened = await asyncio.gather(
            *(post_with_key(both[n % 2], "/v1/sessions", CLERK, "k-1") for n in range(50))
        )
        assert {answer.status_code for answer in opened} == {201}
        (session,) = {answer.json()["session"] for answer in opened}
        url = f"/v1/sessions/{session}/turns"
        taken = await asyncio.gather(
            *(post_with_key(both[n % 2], url, {"text": "Hi"}, "k-2") for n in range(50))
        )
    assert {answer.status_code for answer in taken} == {202}
    assert {answer.json()["sequence"] for answer in taken} == {2}
    assert await fetch_sequence(idle, session) == 2


async def test_retry_to_a_restarted_gateway_gets_the_first_response(
    idle: RunningGateway,
) -> None:
    opened = await post_with_key(idle, "/v1/sessions", CLERK, "k-1")
    url = f"/v1/sessions/{opened.json()['session']}/turns"
    first = await post_with_key(idle, url, {"text": "Hi"}, "k-2")
    async with idle.start_another_gateway() as restarted:
        assert (
            await post_with_key(restarted, "/v1/sessions", CLERK, "k-1")
        ).json() == opened.json()
        assert (await post_with_key(restarted, url, {"text": "Hi"}, "k-2")).json() == first.json()


async def test_key_is_found_in_read_models_after_the_state_dropped_it(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session("interrupting")
    url = f"/v1/sessions/{session}/turns"
    first = await post_with_key(stand, url, {"text": "first"}, "first")
    for number in range(70):
        await post_with_key(stand, url, {"text": "Hi"}, f"k-{number}")
    async with stand.start_another_gateway() as restarted:
        await restarted.fetch_json(
            f"/v1/sessions/{session}/calls", min_sequence=first.json()["sequence"]
        )
        answer = await retry_until_known(restarted, url)
        assert answer.json() == first.json()
        other = await post_with_key(restarted, url, {"text": "other"}, "first")
        assert (other.status_code, other.json()["code"]) == (409, "key-reused")


async def retry_until_known(stand: RunningGateway, url: str) -> httpx.Response:
    """Repeat the request until the read models have caught up."""
    while (
        answer := await post_with_key(stand, url, {"text": "first"}, "first")
    ).status_code == 503:
        signal = stand.projection_signal.get_next_signal()
        await asyncio.wait_for(signal.wait(), 30)
    return answer


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("cancel", {}),
        ("cancel", {"turn": 2}),
        ("close", {"reason": "done"}),
        ("redactions", {"turn": 1, "reason": "wrong"}),
    ],
)
async def test_every_command_is_executed_once_per_key(
    stand: RunningGateway, path: str, body: dict[str, object]
) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "Hi", "Hello.")
    await submit_unanswered_turn(stand, session)
    await stand.submit_turn(session, "and another")
    url = f"/v1/sessions/{session}/{path}"
    first = await post_with_key(stand, url, body, "k-1")
    assert first.status_code == 200, first.text
    again = await post_with_key(stand, url, body, "k-1")
    assert (again.status_code, again.json()) == (200, first.json())


async def submit_unanswered_turn(stand: RunningGateway, session: str) -> None:
    """Submit a turn that its model never answers."""
    stand.model.scripts.append([asyncio.Event()])
    await stand.submit_turn(session, "wait")


@pytest.mark.parametrize("key", ["", "x" * 201, "tab\there", "žodis"])
async def test_malformed_idempotency_key_is_refused_and_writes_no_events(
    idle: RunningGateway, key: str
) -> None:
    session = await idle.open_session()
    headers = [(b"Idempotency-Key", key.encode("utf-8"))]
    url = f"/v1/sessions/{session}/turns"
    answer = await idle.http.post(url, json={"text": "Hi"}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-key")
    assert await fetch_sequence(idle, session) == 1


async def test_two_idempotency_keys_in_one_request_are_refused(idle: RunningGateway) -> None:
    session = await idle.open_session()
    headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    url = f"/v1/sessions/{session}/turns"
    answer = await idle.http.post(url, json={"text": "Hi"}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-key")


async def test_longest_allowed_idempotency_key_is_accepted_and_recorded(
    idle: RunningGateway,
) -> None:
    session = await idle.open_session()
    answer = await post_with_key(idle, f"/v1/sessions/{session}/turns", {"text": "Hi"}, "k" * 200)
    assert answer.status_code == 202
    last = await idle.backend.log.read_last_event(idle.tenant, session)
    assert last is not None
    assert last.event == TurnSubmitted(turn=1, text=PlainText(text="Hi"))
    assert last.envelope.commandkey == "k" * 200


RECORDED_DIGESTS: Final[tuple[tuple[type[RequestModel], dict[str, JsonValue], str], ...]] = (
    (session_requests.OpenSessionRequest, {"blueprint": "assistant"}, "5bdd837d032aac06"),
    (session_requests.ForkSessionRequest, {"at": 3}, "7fe15d8e06eef87f"),
    (session_requests.SubmitTurnRequest, {"text": "Hello"}, "2c25074abbaa3541"),
    (
        question_payloads.QuestionRequest,
        {"question": "Why?", "conversation_id": "c", "nickname": "n", "client_id": "x"},
        "418adbf3fb8d467e",
    ),
    (session_requests.CancelTurnRequest, {}, "4d802cf1c5ce431f"),
    (session_requests.CloseSessionRequest, {}, "22702339f9a6d01a"),
    (session_requests.RedactTurnRequest, {"turn": 1, "reason": "r"}, "999171b976c100c2"),
    (session_requests.DisplayTurnRequest, {"text": "t"}, "8da5850355d64ac3"),
    (session_requests.RecordChoiceRequest, {"choice": "a"}, "6e64cd851fadc0b2"),
    (session_requests.SwitchProfileRequest, {"profile": "p"}, "c113ef06b0af39dc"),
    (session_requests.PhaseSignalRequest, {"signal": "s"}, "db592242f7bc68df"),
    (
        segment_payloads.AddSegmentRequest,
        {"scope": "npc", "content": "A keeper."},
        "63de14b833eb8d9b",
    ),
    (
        segment_payloads.ImportSegmentsRequest,
        {"segments": [{"scope": "npc", "content": "A keeper."}]},
        "f626c460af12242f",
    ),
    (segment_payloads.EditSegmentRequest, {"content": "A keeper."}, "a90df89b702c615e"),
    (service_payloads.MoveBlueprintRequest, {}, "e9f18c60f31b22f9"),
)
"""The beginning of the digest that is on record for a request."""


@pytest.mark.parametrize(("kind", "body", "recorded"), RECORDED_DIGESTS)
def test_request_digest_is_unchanged_by_fields_added_later(
    kind: type[RequestModel], body: dict[str, JsonValue], recorded: str
) -> None:
    identity = RequestIdentity(
        principal=Principal(tenant="t"), route="POST /x", idempotency_key="k"
    )
    key = identity.create_command_key(kind.model_validate(body))
    assert key is not None
    assert key.hash.startswith(f"sha256:{recorded}")
