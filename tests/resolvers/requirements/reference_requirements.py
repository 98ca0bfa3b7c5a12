"""A4 over HTTP: references that a question leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.resolvers.question_service import (
    POLICY,
    PRICE,
    RISK,
    UNRESOLVED_QUESTION,
    QuestionService,
    answer_with_text,
)
from tests.support.servers.model_behaviours import ModelRefusal
from turnlog.events.model.turn_events import TurnCompleted, TurnResolved


def extract_ticker(resolved: TurnResolved) -> tuple[object, bool, str]:
    return resolved.identifiers.get("ticker"), resolved.used, resolved.reason


async def load_resolutions(bank: QuestionService, conversation: str) -> list[TurnResolved]:
    events = [recorded.event for recorded in await bank.load_events(conversation)]
    return [event for event in events if isinstance(event, TurnResolved)]


async def test_a4_reference_in_the_text_takes_precedence_over_an_inherited_one(
    a_bank: QuestionService,
) -> None:
    a_bank.provider.queue_behaviours(
        answer_with_text("Calm."), answer_with_text("Cheap."), answer_with_text("Dear.")
    )
    await a_bank.submit_question(RISK, "a4")
    inherited = await a_bank.submit_question(PRICE, "a4")
    assert inherited["results"] == [{"ticker": "LOGT11", "price": "BRL 101.20"}]
    await a_bank.submit_question("And the price of PAPR11?", "a4")
    found = await load_resolutions(a_bank, "a4")
    assert [extract_ticker(each) for each in found] == [
        ("LOGT11", False, "in-text"),
        ("LOGT11", True, "inherited"),
        ("PAPR11", False, "in-text"),
    ]
    last = (await a_bank.fetch_session_part("a4", "/references"))["last_reference"]
    assert {**last, "updated_at": None} == {
        "ticker": "PAPR11",
        "intent": "fiis_precos",
        "entity": "fiis",
        "updated_at": None,
        "turn_index": 3,
    }


async def test_a4_what_the_resolver_does_not_find_is_no_reference_of_later_turns(
    a_bank: QuestionService,
) -> None:
    a_bank.provider.queue_behaviours(
        answer_with_text("Calm."), answer_with_text("No such fund."), answer_with_text("Cheap.")
    )
    await a_bank.submit_question(RISK, "a4-unknown")
    unknown = await a_bank.submit_question("And the price of NOPE11?", "a4-unknown")
    assert (unknown["results"], unknown["answer"]) == ([], "No such fund.")
    inherited = await a_bank.submit_question(PRICE, "a4-unknown")
    assert inherited["results"] == [{"ticker": "LOGT11", "price": "BRL 101.20"}]
    found = await load_resolutions(a_bank, "a4-unknown")
    assert [(*extract_ticker(each), each.found) for each in found] == [
        ("LOGT11", False, "in-text", True),
        ("NOPE11", False, "in-text", False),
        ("LOGT11", True, "inherited", True),
    ]
    last = (await a_bank.fetch_session_part("a4-unknown", "/references"))["last_reference"]
    assert (last["ticker"], last["turn_index"]) == ("LOGT11", 3)


async def test_a4_reference_of_an_excluded_turn_is_not_inherited_until_it_is_restored(
    a_bank: QuestionService,
) -> None:
    a_bank.provider.queue_behaviours(*[answer_with_text("So.")] * 3)
    await a_bank.submit_question(RISK, "a4-excluded")
    await a_bank.submit_question("The price of PAPR11?", "a4-excluded")
    path = f"/v1/sessions/{a_bank.get_session_id('a4-excluded')}/turns/2/exclusion"
    for method, ticker in (("PUT", "LOGT11"), ("DELETE", "PAPR11")):
        answer = await a_bank.service.http.request(method, path)
        assert answer.status_code == 200, answer.text
        last = (await a_bank.fetch_session_part("a4-excluded", "/references"))["last_reference"]
        assert last["ticker"] == ticker
    await a_bank.service.http.put(path)
    inherited = await a_bank.submit_question(PRICE, "a4-excluded")
    assert inherited["results"] == [{"ticker": "LOGT11", "price": "BRL 101.20"}]


async def test_a4_question_in_portuguese_inherits_references(a_bank: QuestionService) -> None:
    a_bank.provider.queue_behaviours(*[answer_with_text("Sim.")] * 3)
    for question in ("Qual é o risco do LOGT11?", "E qual é a cotação?", "O que ele possui?"):
        await a_bank.submit_question(question, "a4-pt")
    found = await load_resolutions(a_bank, "a4-pt")
    assert [(each.intent, *extract_ticker(each)) for each in found] == [
        ("fiis_financials_risk", "LOGT11", False, "in-text"),
        ("fiis_precos", "LOGT11", True, "inherited"),
        ("fiis_overview", "LOGT11", True, "inherited"),
    ]


@pytest.mark.parametrize(
    ("rule", "instead", "reason"),
    [
        ("enabled: true, intents", "enabled: false, intents", "not-enabled"),
        ("fiis_overview, fiis_precos]", "fiis_overview]", "intent-not-listed"),
        (
            "allowed_entities: [fiis]\n    max_age",
            "allowed_entities: [shares]\n    max_age",
            "entity-not-allowed",
        ),
        ("max_age_turns: 4", "max_age_turns: 1", "too-old"),
    ],
)
async def test_a4_references_are_not_inherited_against_the_policy(
    a_bank: QuestionService, rule: str, instead: str, reason: str
) -> None:
    text = (a_bank.blueprint / "blueprint.yaml").read_text()
    assert rule in text
    with a_bank.edit_file("blueprint.yaml", text.replace(rule, instead)):
        a_bank.provider.queue_behaviours(answer_with_text("Calm."))
        await a_bank.submit_question(RISK, reason)
    await a_bank.submit_question(UNRESOLVED_QUESTION, reason)
    a_bank.provider.queue_behaviours(answer_with_text("Which one?"))
    await a_bank.submit_question(PRICE, reason)
    assert extract_ticker((await load_resolutions(a_bank, reason))[-1]) == (None, False, reason)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("enable_last_ticker: false", "not-enabled"),
        ("allowed_entities: [shares]", "entity-not-allowed"),
        ("max_age_turns: 1", "too-old"),
    ],
)
async def test_a4_last_reference_of_the_memory_policy_overrides_the_blueprint(
    a_bank: QuestionService, settings: str, reason: str
) -> None:
    policy = (a_bank.blueprint / POLICY).read_text()
    conversation = f"policy-{reason}"
    with a_bank.edit_file(POLICY, f"{policy}\nlast_reference: {{{settings}}}\n"):
        a_bank.provider.queue_behaviours(answer_with_text("Calm."))
        await a_bank.submit_question(RISK, conversation)
    memory = await a_bank.fetch_session_part(conversation, "/memory")
    assert (memory["enabled"], memory["warnings"]) == (True, [])
    await a_bank.submit_question(UNRESOLVED_QUESTION, conversation)
    a_bank.provider.queue_behaviours(answer_with_text("Which one?"))
    await a_bank.submit_question(PRICE, conversation)
    resolved = (await load_resolutions(a_bank, conversation))[-1]
    assert extract_ticker(resolved) == (None, False, reason)


async def test_a4_memory_policy_can_allow_inheritance_that_the_blueprint_forbids(
    a_bank: QuestionService,
) -> None:
    blueprint = (a_bank.blueprint / "blueprint.yaml").read_text()
    policy = (a_bank.blueprint / POLICY).read_text()
    strict = blueprint.replace("max_age_turns: 4", "max_age_turns: 1")
    assert strict != blueprint
    lenient = f"{policy}\nlast_reference: {{max_age_turns: 0, allowed_entities: []}}\n"
    with a_bank.edit_file("blueprint.yaml", strict), a_bank.edit_file(POLICY, lenient):
        a_bank.provider.queue_behaviours(answer_with_text("Calm."))
        await a_bank.submit_question(RISK, "policy-allows")
    await a_bank.submit_question(UNRESOLVED_QUESTION, "policy-allows")
    a_bank.provider.queue_behaviours(answer_with_text("Cheap."))
    await a_bank.submit_question(PRICE, "policy-allows")
    resolved = (await load_resolutions(a_bank, "policy-allows"))[-1]
    assert extract_ticker(resolved) == ("LOGT11", True, "inherited")


async def test_a4_references_can_be_resolved_without_recording_a_turn(
    a_bank: QuestionService,
) -> None:
    a_bank.provider.queue_behaviours(answer_with_text("Calm."))
    await a_bank.submit_question(RISK, "a4-resolve")
    before = len(await a_bank.load_events("a4-resolve"))
    url = f"/v1/sessions/{a_bank.get_session_id('a4-resolve')}/references/resolve"
    form: dict[str, Any] = {"intent": "fiis_precos", "entity": "fiis"}
    inherited = (await a_bank.service.http.post(url, json=form)).json()
    form["identifiers"] = {"ticker": "SHOP11"}
    own = (await a_bank.service.http.post(url, json=form)).json()
    assert (inherited["identifiers"], inherited["used"], inherited["reason"]) == (
        {"ticker": "LOGT11"},
        True,
        "inherited",
    )
    assert (own["identifiers"], own["used"], own["reason"]) == (
        {"ticker": "SHOP11"},
        False,
        "in-text",
    )
    assert len(await a_bank.load_events("a4-resolve")) == before


async def test_a4_references_are_inherited_only_from_answered_turns(
    a_bank: QuestionService,
) -> None:
    text = (a_bank.blueprint / "blueprint.yaml").read_text()
    with a_bank.edit_file("blueprint.yaml", text.replace("    fallback: resolved.answer", "   ")):
        a_bank.provider.queue_behaviours(answer_with_text("Calm."), ModelRefusal(status=401))
        await a_bank.submit_question(RISK, "a4-failed")
        failed = await a_bank.post_question("And the price of PAPR11?", "a4-failed")
    assert (failed.status_code, failed.json()["code"]) == (502, "not-answered")
    assert (await a_bank.fetch_session_part("a4-failed", "/references"))["last_reference"][
        "ticker"
    ] == "LOGT11"
    events = [recorded.event for recorded in await a_bank.load_events("a4-failed")]
    completed = [event for event in events if isinstance(event, TurnCompleted)]
    assert [event.reference is not None for event in completed] == [True]
