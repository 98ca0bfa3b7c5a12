"""Provider output that no event can store: replaced where that is honest, else a failure."""

from __future__ import annotations

import pytest

from tests.services.model.model_requests import build_request, collect_answer, expect_failure
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.services.worker.model.answers.chunk_reader import MAX_ANSWER_BYTES
from turnlog.services.worker.model.model_types import LanguageModel

HALF = "\ud83d"


@pytest.mark.parametrize("wrong", [HALF, "\0"], ids=["half a character", "NUL"])
async def test_unstorable_characters_are_replaced_in_text_and_tool_calls(
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
async def test_tool_arguments_are_kept_as_text_even_if_invalid(
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
async def test_answer_too_long_for_an_event_fails_without_retry(
    server: OpenAIServer, model: LanguageModel, name: str, answer: ModelAnswer
) -> None:
    server.queue_behaviours(answer)
    failure = await expect_failure(model, build_request(name))
    assert (failure.code, failure.retryable) == ("too_long", False)
