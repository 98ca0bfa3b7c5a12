"""U22 and U24: what the turns of the shipped agent platform cost, and what they used."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
)
from tests.support.knowledge.fixed_search import FixedSearch, build_found
from tests.support.servers.model_behaviours import ModelAnswer, ModelRefusal
from turnlog.events.model.call_events import AttemptEnded
from turnlog.services.model_facts.model_prices import ModelPrices

pytestmark = pytest.mark.asyncio(loop_scope="module")

GPT_4O = ("2.5", "10")
"""Dollars for a million tokens in the table, sent and received."""

FLAT = ("0.10", "0.40")
"""The same for a model in no table."""


@pytest.fixture(autouse=True)
def usual_model(platform: AgentService) -> Iterator[None]:
    usual = platform.worker.contexts
    yield
    platform.worker.contexts = usual


def set_model(platform: AgentService, model: str) -> None:
    platform.worker.contexts = replace(platform.worker.contexts, default_model=model)


@pytest.mark.parametrize(
    ("model", "price", "rates"),
    [
        ("openai/gpt-4o", "exact", GPT_4O),
        ("openai/eu.gpt-4o", "normalised", GPT_4O),
        ("openai/arn:aws:bedrock:us-east-1:1234:foundation-model/gpt-4o", "normalised", GPT_4O),
        ("openai/heron", "fallback", FLAT),
    ],
)
async def test_u22_model_is_priced_by_full_name_bare_name_or_flat_guess(
    platform: AgentService, model: str, price: str, rates: tuple[str, str]
) -> None:
    set_model(platform, model)
    session = await platform.open_shipped_session("uderia", attributes={}, profile="llm_only")
    await platform.complete_turn(session, answer_with_text(*"A thing of the past."))
    (ended,) = await platform.load_events(session, AttemptEnded)
    sent, received = ended.usage.input_tokens or 0, ended.usage.output_tokens or 0
    assert sent > 0 < received
    exact = Decimal(rates[0]) * sent + Decimal(rates[1]) * received
    assert ended.cost.micro_dollars == int(exact.quantize(Decimal(1), ROUND_HALF_UP))
    assert (ended.cost.price, ended.cost.table) == (
        price,
        (await ModelPrices().load_table()).version,
    )
    (call,) = await platform.list_calls(session)
    assert (call["micro_dollars"], call["model"]) == (ended.cost.micro_dollars, model)


async def test_tokens_from_and_into_a_cache_are_listed_and_priced_apart(
    platform: AgentService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "prices.json"
    own.write_text(
        '{"openai/heron": {"input": 10, "output": 100, "cached": 1, "cache_write": 1000}}'
    )
    pricing = replace(platform.worker.outcomes.pricing, load_prices=ModelPrices(own).load_table)
    priced = replace(platform.worker.outcomes, pricing=pricing)
    monkeypatch.setattr(platform.worker, "outcomes", priced)
    details = {"cached_tokens": 300, "cache_write_tokens": 500}
    usage = {"prompt_tokens": 1_000, "completion_tokens": 2, "prompt_tokens_details": details}
    session = await platform.open_shipped_session("uderia", attributes={}, profile="llm_only")
    await platform.complete_turn(session, ModelAnswer(usage=usage))
    (call,) = await platform.list_calls(session)
    (attempt,) = call["attempts"]
    assert (attempt["input_tokens"], attempt["cached_tokens"]) == (1_000, 300)
    assert attempt["cache_write_tokens"] == 500
    assert attempt["micro_dollars"] == 200 * 10 + 300 * 1 + 500 * 1_000 + 2 * 100


async def fetch_usage(platform: AgentService, session: str, **query: str) -> dict[str, Any]:
    """Return what turns used, once the read models hold the last event of a session."""
    await platform.list_calls(session)
    return dict(await platform.fetch_json("/v1/usage", **query))


@pytest.mark.slow("turns of several calls run over HTTP")
async def test_u24_turns_tokens_cost_models_and_profiles_are_reported_per_user(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={}, profile="llm_only")
    other = await platform.open_shipped_session("uderia", attributes={}, profile="llm_only")
    await platform.complete_turn(session, answer_with_text("One."), user="ada")
    refusal = ModelRefusal(status=400)
    failed = await platform.submit_turn(session, refusal, user="ada")
    assert failed["status"] == "failed"
    set_model(platform, "openai/gpt-4o")
    await platform.complete_turn(session, answer_with_text("Three."), user="ada")
    await platform.complete_turn(other, answer_with_text("Bob's."), user="bob")
    await platform.list_calls(session)
    calls = [
        call for call in await platform.list_calls(session) if call["input_tokens"] is not None
    ]
    report = await fetch_usage(platform, other, user="ada", group_by="model")
    total = report["total"]
    assert (total["turns"], total["completed"], total["failed"]) == (3, 2, 1)
    assert total["success_rate"] == pytest.approx(2 / 3)
    assert total["input_tokens"] == sum(call["input_tokens"] for call in calls)
    assert total["output_tokens"] == sum(call["output_tokens"] for call in calls)
    assert total["total_tokens"] == total["input_tokens"] + total["output_tokens"]
    money = sum(call["micro_dollars"] or 0 for call in calls)
    assert total["cost"]["micro_dollars"] == money
    assert (total["guided"], total["activation_rate"], total["saved_tokens"]) == (0, 0.0, 0)
    assert total["average_saved_tokens"] is None
    assert report["models"] == {"openai/gpt-4o": 1, "openai/heron": 2}
    assert report["profiles"] == {"llm_only": 3}
    assert {each["group"]: each["turns"] for each in report["groups"]} == report["models"]
    for group_by in ("user", "day", "hour", "blueprint", "profile"):
        groups = (await fetch_usage(platform, other, user="ada", group_by=group_by))["groups"]
        assert sum(each["turns"] for each in groups) == 3, group_by
    for bounds, turns in (
        ({"since": "2100-01-01T00:00:00Z"}, 0),
        ({"until": "2001-01-01T00:00:00Z"}, 0),
        ({"since": "2001-01-01T00:00:00Z", "until": "2100-01-01T00:00:00Z"}, 3),
    ):
        narrowed = await fetch_usage(platform, other, user="ada", **bounds)
        assert (narrowed["total"]["turns"], narrowed["groups"]) == (turns, [])
    users = (await fetch_usage(platform, other, group_by="user"))["groups"]
    assert {each["group"]: each["turns"] for each in users if each["group"]} == {
        "ada": 3,
        "bob": 1,
    }


def answer_in(tokens: int, answer: ModelAnswer) -> ModelAnswer:
    """Let an answer have taken so many tokens."""
    usage = {"prompt_tokens": 10, "completion_tokens": tokens, "total_tokens": 10 + tokens}
    return replace(answer, usage=usage)


@pytest.mark.slow("turns of several calls run over HTTP")
async def test_u24_savings_compare_a_turn_with_retrieval_to_the_previous_turn(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={}, profile="tool_enabled")
    # Two turns with cases found: the first of them takes 300 less than before, the other more.
    for found, planned, replied in ((False, 300, 500), (True, 200, 300), (True, 400, 300)):
        case = build_found("yields", "First list the ships, then count them.", 0.8)
        platform.worker.knowledge = FixedSearch((case,) if found else ())
        plan = answer_in(planned, answer_with_plan())
        reply = answer_in(replied, answer_with_text("Two."))
        await platform.complete_turn(session, plan, reply, text="Which ships?", user="cleo")
    total = (await fetch_usage(platform, session, user="cleo"))["total"]
    assert total["output_tokens"] == 800 + 500 + 700
    assert (total["turns"], total["guided"]) == (3, 2)
    assert total["activation_rate"] == pytest.approx(2 / 3)
    assert (total["saved_tokens"], total["saving_turns"]) == (300, 1)
    assert total["average_saved_tokens"] == 300
    # No table has the model, so that an output token costs the flat guess of $0.40 a million.
    assert total["saved_cost"] == {"micro_dollars": 120, "guessed": True, "unpriced_calls": 0}


async def test_u24_saved_tokens_are_priced_at_output_rate_of_each_model(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={}, profile="tool_enabled")
    for model, taken in (("heron", 500), ("gpt-4o", 200), ("heron", 100)):
        set_model(platform, f"openai/{model}")
        case = build_found("yields", "First list the ships, then count them.", 0.8)
        platform.worker.knowledge = FixedSearch((case,))
        answers = answer_in(taken, answer_with_plan()), answer_in(0, answer_with_text("Two."))
        await platform.complete_turn(session, *answers, text="Which ships?", user="fay")
    report = await fetch_usage(platform, session, user="fay", group_by="model")
    saved = {each["group"]: (each["saved_tokens"], each["saved_cost"]) for each in report["groups"]}
    known = {"micro_dollars": 3_000, "guessed": False, "unpriced_calls": 0}
    guessed = {"micro_dollars": 40, "guessed": True, "unpriced_calls": 0}
    assert saved == {"openai/gpt-4o": (300, known), "openai/heron": (100, guessed)}
    assert report["total"]["saved_cost"] == guessed | {"micro_dollars": 3_040}


async def test_u24_open_and_cancelled_turns_are_counted_separately(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={}, profile="llm_only")
    held = asyncio.Event()
    platform.provider.queue_behaviours(ModelAnswer(gates={1: held}))
    body = {"text": "What is a log?", "user": "hal"}
    for _ in range(2):  # The second one is queued.
        answer = await platform.http.post(f"/v1/sessions/{session}/turns", json=body)
        assert answer.status_code == 202, answer.text
    names = ("turns", "open", "cancelled", "completed", "failed")
    total = (await fetch_usage(platform, session, user="hal"))["total"]
    assert [total[name] for name in names] == [2, 2, 0, 0, 0]
    for turn in (2, 1):
        cancelled = await platform.http.post(f"/v1/sessions/{session}/cancel", json={"turn": turn})
        assert cancelled.status_code == 200, cancelled.text
    total = (await fetch_usage(platform, session, user="hal"))["total"]
    assert [total[name] for name in names] == [2, 0, 2, 0, 0]
    assert total["success_rate"] is None
    held.set()
