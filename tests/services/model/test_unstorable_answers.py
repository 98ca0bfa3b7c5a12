"""Provider output that no event can store: replaced where that is honest, else a failure."""

from __future__ import annotations

import pytest

from tests.services.model.model_requests import build_request, collect_answer, expect_failure
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.services.worker.model.chunk_reader import MAX_ANSWER_BYTES
from turnlog.services.worker.model.model_types import LanguageModel

HALF = "\ud83d"


@pytest.mark.parametrize("wrong", [HALF, "\0"], ids=["half a character", "NUL"])
async def test_a_character_that_cannot_be_stored_is_replaced_wherever_it_stands(
    server: OpenAIServer, model: LanguageModel, name: str, wrong: str
) -> None:
    calls = ((f"lo{wrong}ok", f'{{"a": "{wrong}"}}'),)
    server.queue_behaviours(
        ModelAnswer(tokens=(f"a{wrong}", "b"), tool_calls=calls, finish="tool_calls")
    )
    answered = await collect_answer(model, build_request(name))
    (called,) = answered.finished.tool_calls
    assert (answered.text, called.name) == ("a\ufffdb", "lo\ufffdok")
    assert called.arguments == '{"a": "\ufffd"}'


@pytest.mark.parametrize("arguments", ['{"a":', "[" * 10_000, "\x1b[2J", "", "null", "{} {}"])
async def test_arguments_of_a_tool_are_text_whatever_they_are(
    server: OpenAIServer, model: LanguageModel, name: str, arguments: str
) -> None:
    calls = (("format_disk", arguments),)
    server.queue_behaviours(ModelAnswer(tokens=(), tool_calls=calls, finish="tool_calls"))
    answered = await collect_answer(model, build_request(name))
    assert [call.arguments for call in answered.finished.tool_calls] == [arguments]


@pytest.mark.parametrize(
    "answer",
    [
        ModelAnswer(tokens=("x" * (MAX_ANSWER_BYTES // 2),) * 3),
        ModelAnswer(tokens=("é" * (MAX_ANSWER_BYTES // 3),) * 3),
        ModelAnswer(tokens=("\x01" * (MAX_ANSWER_BYTES // 10),) * 3),
        ModelAnswer(tokens=("Hm.",), tool_calls=(("look", "x" * (MAX_ANSWER_BYTES + 1)),)),
    ],
    ids=["text", "text of two bytes a character", "text that JSON escapes", "arguments"],
)
async def test_an_answer_that_no_event_could_hold_fails_and_is_not_asked_for_again(
    server: OpenAIServer, model: LanguageModel, name: str, answer: ModelAnswer
) -> None:
    server.queue_behaviours(answer)
    failure = await expect_failure(model, build_request(name))
    assert (failure.code, failure.retryable) == ("too_long", False)
