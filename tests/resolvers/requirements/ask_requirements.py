"""A6 and A8 over HTTP: a fixed request schema, and an answer when the model fails."""

from __future__ import annotations

import uuid

import httpx

from tests.resolvers.question_service import (
    POLICY,
    PRICE,
    PRICE_ANSWER,
    RISK,
    RISK_ANSWER,
    UNRESOLVED_QUESTION,
    QuestionService,
    answer_with_text,
)
from tests.support.servers.model_behaviours import ModelRefusal
from turnlog.events.model.turn_events import TurnSubmitted


async def test_a6_ask_request_and_response_have_fixed_fields(a_bank: QuestionService) -> None:
    a_bank.provider.queue_behaviours(answer_with_text("Calm."), answer_with_text("Cheap."))
    await a_bank.submit_question(RISK, "a6")
    answer = await a_bank.submit_question(PRICE, "a6")
    assert answer == {
        "status": {"reason": "ok", "message": "ok"},
        "results": [{"ticker": "LOGT11", "price": "BRL 101.20"}],
        "meta": {"rows": 1},
        "answer": "Cheap.",
    }
    for field in ("history", "context", "identifiers", "intent", "session", "model", "api_base"):
        refused = await a_bank.post_question(RISK, "a6", **{field: "x"})
        assert (refused.status_code, refused.json()["field"]) == (422, field)
    for field in ("question", "conversation_id", "nickname", "client_id"):
        refused = await a_bank.post_question(RISK, "a6", **{field: None})
        assert (refused.status_code, refused.json()["field"]) == (422, field)
    assert len((await a_bank.fetch_session_part("a6", "/history"))["turns"]) == 2


async def test_a6_repeated_key_and_question_return_the_same_turn(a_bank: QuestionService) -> None:
    a_bank.provider.queue_behaviours(answer_with_text("Calm."))
    first = await a_bank.post_question(RISK, "a6-key", key="k1")
    again = await a_bank.post_question(RISK, "a6-key", key="k1")
    assert first.json() == again.json()
    assert len((await a_bank.fetch_session_part("a6-key", "/history"))["turns"]) == 1
    other = await a_bank.post_question(PRICE, "a6-key", key="k1")
    assert (other.status_code, other.json()["code"]) == (409, "key-reused")


async def test_a8_failed_model_call_falls_back_to_the_resolver_answer(
    a_bank: QuestionService,
) -> None:
    a_bank.provider.queue_behaviours(
        ModelRefusal(status=401), ModelRefusal(status=429), ModelRefusal(status=429)
    )
    assert (await a_bank.submit_question(RISK, "a8"))["answer"] == RISK_ANSWER
    over_quota = await a_bank.submit_question(PRICE, "a8")
    assert (over_quota["answer"], over_quota["status"]["reason"]) == (PRICE_ANSWER, "ok")
    turns = (await a_bank.fetch_session_part("a8", "/history"))["turns"]
    assert [(turn["reply"], turn["fallback"], turn["call"]) for turn in turns] == [
        (RISK_ANSWER, "unauthorised", None),
        (PRICE_ANSWER, "rate_limited", None),
    ]
    assert (await a_bank.fetch_session_part("a8", "/references"))["last_reference"][
        "turn_index"
    ] == 2


async def test_a8_question_of_a_user_without_tokens_is_answered_by_the_resolver(
    a_bank: QuestionService,
) -> None:
    user = f"user-{uuid.uuid4().hex}"
    a_bank.provider.queue_behaviours(answer_with_text("Calm."))
    await a_bank.submit_question(RISK, "a8-quota")
    http, session = a_bank.service.http, a_bank.get_session_id("a8-quota")
    limits = {"input_tokens": 1, "requests_per_day": 3}
    assert (await http.put(f"/v1/quotas/{user}", json=limits)).status_code == 200

    async def submit_turn(text: str) -> httpx.Response:
        form = {"text": text, "user": user}
        return await http.post(f"/v1/sessions/{session}/turns?wait=60", json=form)

    a_bank.provider.queue_behaviours(answer_with_text("Still calm."))
    assert (await submit_turn(RISK)).json()["reply"] == "Still calm."
    exchanges = len(a_bank.provider.exchanges)
    for _ in range(2):
        answered = (await submit_turn(PRICE)).json()
        assert (answered["status"], answered["reply"]) == ("completed", PRICE_ANSWER)
        assert answered["fallback"] == "quota-exceeded"
    assert len(a_bank.provider.exchanges) == exchanges
    refused = await submit_turn(PRICE)  # It would be the fourth request of the day.
    assert (refused.status_code, refused.json()["code"]) == (429, "quota-exceeded")
    balance = (await http.get(f"/v1/quotas/{user}")).json()
    uses = {each["name"]: each["used"] for each in balance["uses"]}
    assert (uses["input_tokens"], uses["requests_per_day"]) == (balance["input_tokens"], 3)
    submitted = [
        each.event
        for each in await a_bank.load_events("a8-quota")
        if isinstance(each.event, TurnSubmitted) and each.event.reservation
    ]
    reasons = [each.reservation and each.reservation.used_up for each in submitted]
    assert reasons[0] is None
    assert all("nothing is left of 1 input token per month" in (each or "") for each in reasons[1:])
    verified = await a_bank.fetch_session_part("a8-quota", "/verify")
    assert verified["findings"] == []


async def test_a8_question_of_a_user_without_tokens_is_refused_where_no_resolver_may_answer_it(
    a_bank: QuestionService,
) -> None:
    user, text = f"user-{uuid.uuid4().hex}", (a_bank.blueprint / "blueprint.yaml").read_text()
    # Another profile's call has the fallback; the turn's own has none.
    unused = "  spare: {messages: [{user: [input]}], fallback: resolved.answer}\n\nhistory:\n"
    other = "\n  spare: {call: spare}\n"
    written = text.replace("    fallback: resolved.answer", "   ").replace("\nhistory:\n", unused)
    with a_bank.edit_file("blueprint.yaml", written.rstrip() + other):
        a_bank.provider.queue_behaviours(answer_with_text("Calm."))
        await a_bank.submit_question(RISK, "a8-no-fallback")
    http, session = a_bank.service.http, a_bank.get_session_id("a8-no-fallback")
    limited = await http.put(f"/v1/quotas/{user}", json={"input_tokens": 0})
    assert limited.status_code == 200, limited.text
    path = f"/v1/sessions/{session}/turns"
    refused = await http.post(path, json={"text": RISK, "user": user})
    assert (refused.status_code, refused.json()["code"]) == (429, "quota-exceeded")
    assert len((await a_bank.fetch_session_part("a8-no-fallback", "/history"))["turns"]) == 1


async def test_a8_unroutable_question_has_an_empty_answer(
    a_bank: QuestionService,
) -> None:
    exchange_count = len(a_bank.provider.exchanges)
    answer = await a_bank.submit_question(UNRESOLVED_QUESTION, "a8-nowhere")
    assert answer["status"]["reason"] == "unroutable"
    assert (answer["results"], answer["meta"], answer["answer"]) == ([], {}, "")
    (turn,) = (await a_bank.fetch_session_part("a8-nowhere", "/history"))["turns"]
    assert (turn["status"], turn["reply"], turn["fallback"]) == ("completed", "", "unroutable")
    assert len(a_bank.provider.exchanges) == exchange_count
    told = [f"user: {UNRESOLVED_QUESTION}", "assistant: "]
    assert await a_bank.list_memory_messages("a8-nowhere") == told
    assert await a_bank.list_memory_messages("a8-nowhere", reader="planner") == told
    assert await a_bank.list_memory_messages("a8-nowhere", reader="narrator", entity="fiis") == [
        told[0]
    ]


async def test_a8_empty_answer_counts_as_a_message_of_the_memory(
    a_bank: QuestionService,
) -> None:
    with a_bank.edit_file(POLICY, "enabled: true\nmax_turns: 4\n"):
        for number in range(3):
            await a_bank.submit_question(f"{UNRESOLVED_QUESTION} {number}", "a8-counted")
    assert await a_bank.list_memory_messages("a8-counted") == [
        f"user: {UNRESOLVED_QUESTION} 1",
        "assistant: ",
        f"user: {UNRESOLVED_QUESTION} 2",
        "assistant: ",
    ]
