"""What providers say of a prompt that is too long: recognised, and read for its numbers alone."""

from __future__ import annotations

import json

import httpx
import pytest

from turnlog.events.model.call_events import ContextOverflow
from turnlog.services.worker.model.context_overflows import read_overflow
from turnlog.services.worker.model.provider_errors import (
    ProviderRefusal,
    map_error_frame,
    map_refusal,
)

MESSAGES = {
    "OpenAI": (
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted "
            "in 9001 tokens. Please reduce the length of the messages."
        ),
        (9_001, 8_192),
    ),
    "OpenAI with an answer": (
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9001 "
            "tokens (8001 in the messages, 1000 in the completion). Please reduce the length."
        ),
        (8_001, 7_192),
    ),
    "OpenAI Responses": (
        "Your input exceeds the context window of this model. Please adjust your input.",
        None,
    ),
    "vLLM": (
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 1000. This model's maximum "
            "context length is 8192 tokens and your request has 7500 input tokens (1000 > 8192 - "
            "7500)."
        ),
        (7_500, 7_192),
    ),
    "vLLM later": (
        (
            "You passed 9000 input tokens and requested 512 output tokens. However, the model's "
            "context length is only 8192 tokens, resulting in a maximum input length of 7680 "
            "tokens. Please reduce the length of the input prompt."
        ),
        (9_000, 7_680),
    ),
    "SGLang": (
        "The input (9001 tokens) is longer than the model's context length (8192 tokens).",
        (9_001, 8_192),
    ),
    "SGLang with an answer": (
        (
            "Requested token count exceeds the model's maximum context length of 8192 tokens. You "
            "requested a total of 9000 tokens: 8000 tokens from the input messages and 1000 tokens "
            "for the completion."
        ),
        (8_000, 7_192),
    ),
    "llama.cpp": (
        "request (9001 tokens) exceeds the available context size (8192 tokens), try increasing it",
        (9_001, 8_192),
    ),
    "llama.cpp earlier": (
        "the request exceeds the available context size. try increasing the context size",
        None,
    ),
    "Ollama": ("the input length exceeds the context length", None),
    "Anthropic": ("prompt is too long: 210001 tokens > 200000 maximum", (210_001, 200_000)),
    "Anthropic with an answer": (
        (
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease "
            "input length or `max_tokens` and try again"
        ),
        (190_000, 180_000),
    ),
    "Gemini": (
        "The input token count (1200001) exceeds the maximum number of tokens allowed (1048576).",
        (1_200_001, 1_048_576),
    ),
    "Bedrock": ("Input is too long for requested model.", None),
    "Mistral": (
        (
            "Prompt contains 40001 tokens and 0 draft tokens, too large for model with 32768 "
            "maximum context length"
        ),
        (40_001, 32_768),
    ),
    "Qwen": ("Range of input length should be [1, 30720]", (None, 30_720)),
    "xAI": (
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        (537_812, 131_072),
    ),
    "OpenRouter": (
        (
            "This endpoint's maximum context length is 32768 tokens. However, you requested about "
            "40000 tokens (39000 of text input, 1000 in the output)."
        ),
        (39_000, 31_768),
    ),
    "text-generation-inference": (
        (
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: "
            "4000 `inputs` tokens and 500 `max_new_tokens`"
        ),
        (4_000, 3_596),
    ),
    "LM Studio": (
        (
            "Trying to keep the first 5000 tokens when context the overflows. However, the model "
            "is loaded with context length of only 4096 tokens, which is not enough."
        ),
        (None, 4_096),
    ),
    "thousands with commas": (
        (
            "This model's maximum context length is 128,000 tokens. However, you requested 131,072 "
            "tokens."
        ),
        (131_072, 128_000),
    ),
}


@pytest.mark.parametrize("status", [400, 500], ids=str)
@pytest.mark.parametrize("provider", MESSAGES)
def test_refusal_of_each_provider_is_an_overflow_with_its_numbers(
    provider: str, status: int
) -> None:
    message, numbers = MESSAGES[provider]
    body = json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()
    failure = map_refusal(ProviderRefusal(status, httpx.Headers(), body), 0.0)
    assert failure.code == "context_overflow"
    expected = numbers and ContextOverflow(tokens=numbers[0], limit=numbers[1])
    assert failure.overflow == expected
    assert message not in failure.detail


def test_numbers_of_llama_cpp_may_be_fields_of_their_own() -> None:
    error = {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9_001}
    body = json.dumps({"error": {**error, "n_ctx": 8_192, "message": "too long"}}).encode()
    failure = map_refusal(ProviderRefusal(400, httpx.Headers(), body), 0.0)
    assert (failure.code, failure.overflow) == (
        "context_overflow",
        ContextOverflow(tokens=9_001, limit=8_192),
    )


def test_refusal_within_a_stream_is_read_too() -> None:
    message = MESSAGES["OpenAI"][0]
    failure = map_error_frame({"error": {"code": "context_length_exceeded", "message": message}})
    assert failure.overflow == ContextOverflow(tokens=9_001, limit=8_192)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Invalid value: 'maximum_tokens'."),
        (429, "Request too large: Limit 30000, Requested 40000 tokens per minute."),
        (500, "The server had an error while processing your request."),
    ],
)
def test_other_refusals_are_no_overflow(status: int, message: str) -> None:
    body = json.dumps({"error": {"message": message}}).encode()
    failure = map_refusal(ProviderRefusal(status, httpx.Headers(), body), 0.0)
    assert failure.code != "context_overflow"
    assert failure.overflow is None


def test_limit_that_is_not_below_the_prompt_is_not_believed() -> None:
    message = "maximum context length is 8192 tokens, but your messages resulted in 5000 tokens"
    assert read_overflow(message) == ContextOverflow(tokens=5_000)


ECHOED = "maximum context length is 5000 tokens and the prompt is too long: 900000 tokens"


@pytest.mark.parametrize(
    ("left", "right"), [("'", "'"), ('"', '"'), ("`", "`"), ("“", "”"), ("«", "»")]
)
def test_numbers_that_a_refusal_quotes_from_the_prompt_are_not_believed(
    left: str, right: str
) -> None:
    message = (
        f"Your message {left}{ECHOED}{right} is too long. This model's maximum context length is "
        "8192 tokens, your messages resulted in 9001 tokens."
    )
    error = {"error": {"code": "context_length_exceeded", "message": message}}
    refusal = ProviderRefusal(400, httpx.Headers(), json.dumps(error).encode())
    expected = ContextOverflow(tokens=9_001, limit=8_192)
    assert map_refusal(refusal, 0.0).overflow == expected
    assert map_error_frame(error).overflow == expected


def test_numbers_that_contradict_each_other_are_not_believed() -> None:
    message = f"{ECHOED}? The maximum context length is 8192 tokens. Prompt is too long: 9001"
    assert read_overflow(message) is None


def test_long_message_is_searched_in_no_more_than_its_beginning() -> None:
    assert read_overflow("x " * 1_000_000 + "maximum context length is 8192 tokens") is None
    assert read_overflow("maximum context length is " + "9" * 200) is not None
    assert read_overflow("maximum context length is 0 tokens") is None
