"""A8 without any model: resolved questions are answered at no cost."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.resolvers.question_service import (
    PRICE,
    PRICE_ANSWER,
    RISK,
    RISK_ANSWER,
    QuestionService,
    prepare_question_host,
    start_question_service,
)
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.model.call_events import AttemptEnded

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(400)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def a_bank(
    provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[QuestionService]:
    folder = tmp_path_factory.mktemp("town")
    async with (
        prepare_question_host(folder, provider, {"TURNLOG_MODEL": "off"}) as place,
        start_question_service(place, provider, warm_up=False) as running,
    ):
        yield running


async def test_a8_with_the_model_off_the_resolver_answers_and_references_are_inherited(
    a_bank: QuestionService,
) -> None:
    assert (await a_bank.submit_question(RISK, "off"))["answer"] == RISK_ANSWER
    assert (await a_bank.submit_question(PRICE, "off"))["answer"] == PRICE_ANSWER
    turns = (await a_bank.fetch_session_part("off", "/history"))["turns"]
    assert [turn["fallback"] for turn in turns] == ["model_off", "model_off"]
    ends = [each.event for each in await a_bank.load_events("off")]
    for end in (event for event in ends if isinstance(event, AttemptEnded)):
        assert (end.outcome, end.cost.micro_dollars, end.usage.input_tokens) == ("unasked", 0, 0)
    assert not a_bank.provider.exchanges


async def test_a8_with_the_model_off_and_no_fallback_the_turn_fails_with_model_off(
    a_bank: QuestionService,
) -> None:
    text = (a_bank.blueprint / "blueprint.yaml").read_text()
    with a_bank.edit_file("blueprint.yaml", text.replace("    fallback: resolved.answer", "   ")):
        refused = await a_bank.post_question(RISK, "no-fallback")
    assert (refused.status_code, refused.json()["code"]) == (502, "not-answered")
    assert "model_off" in refused.json()["detail"]
