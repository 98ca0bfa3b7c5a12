"""External resolvers over HTTP: what they receive, and every way in which they fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.resolvers.question_service import (
    RISK,
    QuestionService,
    answer_with_text,
    prepare_question_host,
    start_question_service,
)
from tests.resolvers.resolver_server import Behaviour, ResolverServer, start_resolver_server
from tests.support.servers.model_behaviours import AnswerBreak, ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.model.call_events import AttemptEnded
from turnlog.events.model.turn_events import TurnFailed, TurnResolved

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(400)]

FOUND: dict[str, Any] = {
    "intent": "fiis_precos",
    "entity": "fiis",
    "identifiers": {"ticker": "ZZZZ11"},
    "results": {"rows": [{"price": 1.5}]},
    "meta": {"source": "elsewhere"},
    "answer": "It costs 1.50.",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def answerer() -> AsyncIterator[ResolverServer]:
    async with start_resolver_server() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def a_bank(
    answerer: ResolverServer, provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[QuestionService]:
    """A question service with an external resolver."""
    folder = tmp_path_factory.mktemp("town")
    async with prepare_question_host(folder, provider) as place:
        file = folder / "blueprints/araquem/blueprint.yaml"
        source = "resolver: {source: finance_demo, timeout_seconds: 10}"
        text = file.read_text().replace("base_seconds: 0.5", "base_seconds: 0.01")
        # The first call waits for litellm; on a busy machine that is longer than any client would.
        text = text.replace("deadline_seconds: 60", "deadline_seconds: 290")
        assert source in text
        file.write_text(
            text.replace(source, f"resolver: {{url: '{answerer.url}', timeout_seconds: 2}}")
        )
        async with start_question_service(place, provider, warm_up=False) as running:
            yield running


async def test_resolver_request_has_the_question_and_the_history_visible_to_the_planner(
    a_bank: QuestionService, answerer: ResolverServer
) -> None:
    answerer.set_behaviours(FOUND, {**FOUND, "identifiers": {}}, FOUND)
    a_bank.provider.queue_behaviours(answer_with_text("One fifty."), answer_with_text("Still."))
    answer = await a_bank.submit_question(RISK, "told")
    assert (answer["results"], answer["meta"]) == (FOUND["results"], FOUND["meta"])
    await a_bank.submit_question("And now?", "told")
    first, second, third = answerer.requests[-3:]
    assert first == {"question": RISK, "identifiers": {}, "history": []}
    assert [(each["role"], each["content"]) for each in second["history"]] == [
        ("user", RISK),
        ("assistant", "One fifty."),
    ]
    assert second["identifiers"] == {}
    assert third == {**second, "identifiers": {"ticker": "ZZZZ11"}}
    resolved = [each.event for each in await a_bank.load_events("told")]
    (_, again) = [event for event in resolved if isinstance(event, TurnResolved)]
    assert (again.used, again.resolver) == (True, f"127.0.0.1:{answerer.port}")


@pytest.mark.slow("whole sessions run on a service of their own")
@pytest.mark.parametrize(
    ("behaviours", "code"),
    [
        (["silence", "silence"], "resolver_timeout"),
        (["hang up", "hang up"], "resolver_unreachable"),
        ([500, 503], "resolver_failed"),
        ([404], "resolver_failed"),
        ([b"not JSON"], "resolver_malformed"),
        ([b'{"entity": "x", "answer": "' + b"x" * 400_000 + b'"}'], "resolver_malformed"),
        ([b"[" * 100_000], "resolver_malformed"),
        ([{"entity": "fiis", "answer": 7}], "resolver_malformed"),
        ([{"entity": "fiis", "anwser": "x"}], "resolver_malformed"),
        ([{"entity": "fiis", "answer": "NUL \0"}], "resolver_malformed"),
        ([b'{"results": [NaN]}'], "resolver_malformed"),
        ([b'{"entity": "\\ud800"}'], "resolver_malformed"),
    ],
)
async def test_failing_resolver_fails_the_turn_with_a_code(
    a_bank: QuestionService, answerer: ResolverServer, behaviours: list[Behaviour], code: str
) -> None:
    conversation = str(behaviours)[:60]
    request_count = len(answerer.requests)
    answerer.set_behaviours(*behaviours)
    refused = await a_bank.post_question(RISK, conversation)
    assert (refused.status_code, refused.json()["code"]) == (502, "not-answered")
    events = [each.event for each in await a_bank.load_events(conversation)]
    (failed,) = [event for event in events if isinstance(event, TurnFailed)]
    assert failed.code == code
    assert len(answerer.requests) - request_count == len(behaviours), (
        "what may pass is tried again, once"
    )
    ends = [event for event in events if isinstance(event, AttemptEnded)]
    assert len(ends) == len(behaviours)


async def test_later_attempt_does_not_resolve_a_turn_again(
    a_bank: QuestionService, answerer: ResolverServer
) -> None:
    request_count = len(answerer.requests)
    answerer.set_behaviours(FOUND)
    a_bank.provider.queue_behaviours(
        ModelAnswer(tokens=("It ", "costs"), breaks=AnswerBreak(1, "disconnect")),
        answer_with_text("It costs."),
    )
    assert (await a_bank.submit_question(RISK, "again"))["answer"] == "It costs."
    assert len(answerer.requests) - request_count == 1


async def test_watcher_receives_the_fallback_answer_after_an_aborted_one(
    a_bank: QuestionService, answerer: ResolverServer
) -> None:
    answerer.set_behaviours(FOUND)
    broken = ModelAnswer(tokens=("Half ", "an answer"), breaks=AnswerBreak(1, "disconnect"))
    a_bank.provider.queue_behaviours(broken, broken)
    await a_bank.submit_question(RISK, "watched")
    path = await a_bank.fetch_session_part("watched")
    async with a_bank.service.watch_turn(path["session"], 1) as answer:
        received = await answer.read_all()
    last_reset = max(
        (n for n, each in enumerate(received) if each.name == "attempt-reset"), default=0
    )
    texts = [each.json["text"] for each in received[last_reset:] if each.name == "token"]
    assert "".join(texts) == "It costs 1.50."
    assert received[-1].json["fallback"] == "disconnected"
