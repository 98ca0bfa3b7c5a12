"""A1 over HTTP: conversations are found or opened by any id."""

from __future__ import annotations

import pytest

from tests.resolvers.question_service import (
    PRICE,
    RISK,
    UNRESOLVED_QUESTION,
    QuestionService,
    answer_with_text,
    compute_conversation_session,
)
from turnlog.events.model.session_events import SessionOpened
from turnlog.events.model.turn_events import TurnSubmitted

ODD_CONVERSATION_IDS = [
    "a:b",
    "c.*.>",
    "../..",
    "Ω 💱\r\n\t\u2028",
    "$JS.API.>",
    '"],["',
    "x" * 1000,
]
"""Conversation ids that an application may use."""


async def test_a1_memory_lists_question_and_answer_with_role_content_time_and_meta(
    a_bank: QuestionService,
) -> None:
    a_bank.provider.queue_behaviours(answer_with_text("It is ", "calm."))
    await a_bank.submit_question(RISK, "a1")
    messages = (await a_bank.fetch_session_part("a1", "/memory"))["messages"]
    assert [(each["role"], each["content"]) for each in messages] == [
        ("user", RISK),
        ("assistant", "It is calm."),
    ]
    events = await a_bank.load_events("a1")
    times = [event.envelope.time for event in events]
    assert [each["created_at"] for each in messages] == [times[1], times[-1]]
    assert {*messages[0]} == {"role", "content", "created_at", "meta"}
    request = events[1].envelope.id
    meta = {"turn": 1, "request_id": request, "intent": "fiis_financials_risk", "entity": "fiis"}
    assert [each["meta"] for each in messages] == [meta, meta]


async def test_a1_question_is_recorded_before_it_is_resolved(
    a_bank: QuestionService,
) -> None:
    a_bank.provider.queue_behaviours(answer_with_text("Calm."))
    await a_bank.submit_question(RISK, "a1-order", nickname="Grace")
    kinds = await a_bank.list_event_kinds("a1-order")
    assert kinds[:4] == ["session-opened", "turn-submitted", "attempt-started", "turn-resolved"]
    submitted = (await a_bank.load_events("a1-order"))[1].event
    assert isinstance(submitted, TurnSubmitted)
    assert submitted.meta == {"nickname": "Grace"}


@pytest.mark.parametrize("conversation", ODD_CONVERSATION_IDS)
async def test_a1_conversation_can_have_any_id(a_bank: QuestionService, conversation: str) -> None:
    await a_bank.submit_question(UNRESOLVED_QUESTION, conversation)
    opened = (await a_bank.load_events(conversation))[0].event
    assert isinstance(opened, SessionOpened)
    assert opened.key == {"client_id": a_bank.client, "conversation_id": conversation}


async def test_a1_each_pair_of_client_and_conversation_has_its_own_session(
    a_bank: QuestionService,
) -> None:
    parts = [("a", "b:c"), ("a:b", "c"), ("b:c", "a"), ("a", "b"), ("b", "a"), ("a,b", "c")]
    pairs = [(f"{a_bank.client}:{client}", conversation) for client, conversation in parts]
    for client, conversation in pairs:
        await a_bank.submit_question(UNRESOLVED_QUESTION, conversation, client_id=client)
    ids = {compute_conversation_session(conversation, client) for client, conversation in pairs}
    assert len(ids) == len(pairs)
    for client, conversation in pairs:
        turns = await a_bank.service.get_json(
            f"/v1/sessions/{compute_conversation_session(conversation, client)}/history"
        )
        assert len(turns["turns"]) == 1


async def test_a1_opening_with_a_used_key_returns_the_existing_session(
    a_bank: QuestionService,
) -> None:
    key = {"client_id": a_bank.client, "conversation_id": "found"}
    form = {"blueprint": "araquem", "key": key}
    first = await a_bank.service.http.post("/v1/sessions", json=form)
    again = await a_bank.service.http.post("/v1/sessions", json=form)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert first.json()["session"] == a_bank.get_session_id("found")
    wrong = {"blueprint": "araquem", "key": {"client_id": a_bank.client, "conversation": "c"}}
    refused = await a_bank.service.http.post("/v1/sessions", json=wrong)
    assert refused.status_code == 422
    assert (refused.json()["field"], refused.json()["fix"]) == (
        "key.conversation",
        "write `conversation_id`",
    )


async def test_a1_system_turn_is_in_the_memory_and_in_later_prompts_at_its_position(
    a_bank: QuestionService,
) -> None:
    a_bank.provider.queue_behaviours(answer_with_text("It is calm."), answer_with_text("101.20."))
    await a_bank.submit_question(RISK, "a1-system")
    session, notice = a_bank.get_session_id("a1-system"), "The client has become a professional."
    path, form = f"/v1/sessions/{session}/turns", {"text": notice, "role": "system"}
    noted = [
        await a_bank.service.http.post(
            path,
            json={**form, "meta": {"by": "desk"}},
            headers={"Idempotency-Key": "n"},
        )
        for _ in range(2)
    ]
    assert [answer.status_code for answer in noted] == [200, 200], noted[0].text
    assert noted[0].json() == noted[1].json(), "the same key is the same turn"
    assert {name: noted[0].json()[name] for name in ("turn", "status", "reply")} == {
        "turn": 2,
        "status": "completed",
        "reply": None,
    }
    await a_bank.submit_question(PRICE, "a1-system")
    prompt = await a_bank.fetch_prompt("a1-system", "3.1")
    conversation = [
        ("user", RISK),
        ("assistant", "It is calm."),
        ("system", notice),
        ("user", PRICE),
    ]
    messages = [(each["role"], each["content"]) for each in prompt["messages"]]
    assert messages[1:] == conversation
    memory = await a_bank.fetch_session_part("a1-system", "/memory")
    remembered = [(each["role"], each["content"]) for each in memory["messages"]]
    assert remembered == [*conversation, ("assistant", "101.20.")]
    events = await a_bank.load_events("a1-system")
    (submitted,) = [each for each in events if getattr(each.event, "role", "user") == "system"]
    assert isinstance(submitted.event, TurnSubmitted)
    assert submitted.event.meta == {"by": "desk"}
    assert memory["messages"][2] == {
        "role": "system",
        "content": notice,
        "created_at": submitted.envelope.time,
        "meta": {"turn": 2, "request_id": submitted.envelope.id, "intent": None, "entity": None},
    }
    history = (await a_bank.fetch_session_part("a1-system", "/history"))["turns"]
    assert [(each["role"], each["reply"]) for each in history] == [
        *(("user", "It is calm."), ("system", None), ("user", "101.20."))
    ]
    reference = (await a_bank.fetch_session_part("a1-system", "/references"))["last_reference"]
    assert reference["turn_index"] == 3, "a system turn is about nothing and changes no reference"
    assert (await a_bank.fetch_session_part("a1-system", "/verify"))["verified"]


async def test_a1_invalid_system_turn_is_refused_and_ask_accepts_no_role(
    a_bank: QuestionService,
) -> None:
    await a_bank.submit_question(UNRESOLVED_QUESTION, "a1-none")
    path = f"/v1/sessions/{a_bank.get_session_id('a1-none')}/turns"
    for wrong in ({"inputs": {"a": 1}}, {"references": {"ticker": "LOGT11"}}, {"text": None}):
        form = {"text": "Closed on Monday.", "role": "system", **wrong}
        refused = await a_bank.service.http.post(path, json=form)
        assert (refused.status_code, refused.json()["field"]) == (422, next(iter(wrong)))
    body = {"question": RISK, "role": "system"}
    refused = await a_bank.post_question("", "a1-none", **body)
    assert refused.status_code == 422, "the closed front door knows no roles"
    kinds = await a_bank.list_event_kinds("a1-none")
    assert kinds.count("turn-submitted") == 1
