"""A6 and A8 over HTTP: a fixed request schema, and an answer when the model fails."""

from __future__ import annotations

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
