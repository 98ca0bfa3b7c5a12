"""Every way a provider fails, through litellm, over HTTP."""

from __future__ import annotations

import traceback
from typing import Literal
from urllib.parse import urlsplit

import pytest

from tests.services.model.conftest import KEY
from tests.services.model.model_requests import QUESTION, build_request, expect_failure
from tests.support.servers.model_behaviours import (
    AnswerBreak,
    ModelAnswer,
    ModelBehaviour,
    ModelRefusal,
    RawFrames,
)
from tests.support.servers.openai_server import OpenAIServer
from turnlog.services.worker.model.model_types import FailureCode, LanguageModel


@pytest.mark.parametrize(
    ("refusal", "code", "retryable"),
    [
        (ModelRefusal(status=429), "rate_limited", True),
        (ModelRefusal(status=500), "server_error", True),
        (ModelRefusal(status=503), "server_error", True),
        (ModelRefusal(status=529), "server_error", True),
        (ModelRefusal(status=401), "unauthorised", False),
        (ModelRefusal(status=403), "unauthorised", False),
        (ModelRefusal(status=404, code="model_not_found"), "unknown_model", False),
        (ModelRefusal(status=400, code="context_length_exceeded"), "context_overflow", False),
        (
            ModelRefusal(status=400, message="This model's maximum context length is 10 tokens."),
            "context_overflow",
            False,
        ),
        (ModelRefusal(status=400, code="content_filter"), "content_filtered", False),
        (ModelRefusal(status=400, type="invalid_request_error"), "bad_request", False),
        (ModelRefusal(status=422), "bad_request", False),
        (
            ModelRefusal(status=400, message="Invalid schema for response_format"),
            "response_format_refused",
            False,
        ),
    ],
)
async def test_error_response_is_classified_by_its_meaning(
    server: OpenAIServer,
    model: LanguageModel,
    name: str,
    refusal: ModelRefusal,
    code: FailureCode,
    *,
    retryable: bool,
) -> None:
    server.queue_behaviours(refusal)
    failure = await expect_failure(model, build_request(name))
    assert (failure.code, failure.retryable) == (code, retryable)
    assert f"HTTP {refusal.status}" in failure.detail
    assert len(server.exchanges) == 1, "retries are the worker's"


@pytest.mark.parametrize("status", [400, 429, 500])
async def test_error_response_nested_too_deep_is_classified_by_its_status(
    server: OpenAIServer, model: LanguageModel, name: str, status: int
) -> None:
    server.queue_behaviours(ModelRefusal(status=status, nesting=100_000))
    failure = await expect_failure(model, build_request(name))
    assert failure.detail == f"HTTP {status}"
    server.queue_behaviours(ModelRefusal(status=status))
    assert failure.code == (await expect_failure(model, build_request(name))).code


async def test_frames_nested_too_deep_are_malformed(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    server.queue_behaviours(RawFrames((f'data: {{"choices": [], "a": {deep}}}\n\n'.encode(),)))
    failure = await expect_failure(model, build_request(name))
    assert failure.code in {"malformed", "error_in_stream"}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({}, None), ({"retry-after": "7"}, 7.0), ({"retry-after-ms": "1500"}, 1.5)],
)
async def test_rate_limit_failure_includes_the_retry_delay(
    server: OpenAIServer,
    model: LanguageModel,
    name: str,
    headers: dict[str, str],
    seconds: float | None,
) -> None:
    server.queue_behaviours(ModelRefusal(status=429, headers=headers))
    assert (await expect_failure(model, build_request(name))).retry_after == seconds


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("disconnect", "disconnected"),
        ("error", "error_in_stream"),
        ("garbage", "malformed"),
    ],
)
async def test_interrupted_answer_is_a_retryable_failure(
    server: OpenAIServer,
    model: LanguageModel,
    name: str,
    how: Literal["disconnect", "error", "garbage"],
    code: FailureCode,
    after: int,
) -> None:
    server.queue_behaviours(ModelAnswer(breaks=AnswerBreak(after, how)))
    failure = await expect_failure(model, build_request(name))
    assert (failure.code, failure.retryable) == (code, True)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (ModelAnswer(finish=None), "incomplete"),
        (ModelAnswer(finish=None, usage=None), "incomplete"),
        (ModelAnswer(finish="abort"), "incomplete"),
        (ModelAnswer(tokens=(), finish=None, usage=None), "empty"),
        (ModelAnswer(tokens=(), finish=None), "empty"),
    ],
)
async def test_answer_without_a_valid_end_is_a_retryable_failure(
    server: OpenAIServer, model: LanguageModel, name: str, answer: ModelAnswer, code: FailureCode
) -> None:
    server.queue_behaviours(answer)
    failure = await expect_failure(model, build_request(name))
    assert (failure.code, failure.retryable) == (code, True)


async def test_unreachable_server_fails_as_disconnected(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    await server.__aexit__(None, None, None)
    failure = await expect_failure(model, build_request(name))
    assert failure.code == "disconnected"
    assert failure.address == urlsplit(server.url).netloc
    assert failure.address not in failure.detail


async def test_missing_api_key_fails_as_unauthorised_without_retry(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    failure = await expect_failure(model, build_request("openai/heron"))
    assert (failure.code, failure.retryable) == ("unauthorised", False)


async def test_model_of_an_unknown_provider_fails_as_unknown_model(model: LanguageModel) -> None:
    failure = await expect_failure(model, build_request("no-such-provider/heron"))
    assert (failure.code, failure.retryable) == ("unknown_model", False)


@pytest.mark.parametrize("parameter", ["api_base", "api_key", "extra_headers", "mock_response"])
async def test_parameter_outside_the_allow_list_is_rejected_before_sending(
    server: OpenAIServer, model: LanguageModel, name: str, parameter: str
) -> None:
    failure = await expect_failure(
        model, build_request(name, parameters={parameter: "http://127.0.0.1:9"})
    )
    assert failure.code == "bad_request"
    assert parameter in failure.detail
    assert server.exchanges == []


@pytest.mark.parametrize(
    "behaviour",
    [
        ModelRefusal(
            status=400, message=f"cannot read {QUESTION!r} sent with {KEY}", type=QUESTION, code=KEY
        ),
        ModelRefusal(status=500, message=f"cannot read {QUESTION!r} sent with {KEY}"),
        ModelAnswer(breaks=AnswerBreak(1, "error", {"message": QUESTION + KEY, "code": KEY})),
        ModelAnswer(breaks=AnswerBreak(1, "garbage")),
        ModelRefusal(
            status=400, message=f"cannot read {QUESTION!r} sent with {KEY}", nesting=100_000
        ),
        RawFrames((f'data: {{"error": "{QUESTION} {KEY}", "a": {"[" * 100_000}\n\n'.encode(),)),
    ],
)
async def test_failure_contains_neither_prompt_nor_api_key(
    server: OpenAIServer, model: LanguageModel, name: str, behaviour: ModelBehaviour
) -> None:
    server.queue_behaviours(behaviour)
    failure = await expect_failure(model, build_request(name))
    text = "".join(traceback.format_exception(failure)) + repr(vars(failure))
    assert QUESTION not in text
    assert KEY not in text
