"""Responses of providers that are too large, over HTTP through litellm and piece by piece."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.services.model.model_requests import build_request, collect_answer, expect_failure
from tests.support.servers.model_behaviours import ModelAnswer, ModelRefusal, RawFrames
from tests.support.servers.openai_server import OpenAIServer
from turnlog.services.worker.model.bounded_responses import (
    MAX_ERROR_BYTES,
    MAX_FRAME_BYTES,
    BoundedBody,
    FrameBounds,
)
from turnlog.services.worker.model.model_types import LanguageModel, ModelFailure

pytestmark = pytest.mark.usefixtures("loop_holds")

EVENTS = "text/event-stream; charset=utf-8"

LINES = "application/x-ndjson"

AWS = "application/vnd.amazon.eventstream"


def build_error_frame(size: int) -> bytes:
    return b'data: {"error": {"message": "%s"}}\n\n' % (b"x" * size)


@pytest.mark.parametrize("size", [MAX_FRAME_BYTES, 30_000_000])
async def test_oversized_frame_fails_the_call_as_too_long(
    server: OpenAIServer, model: LanguageModel, name: str, size: int
) -> None:
    delta = {"choices": [{"index": 0, "delta": {"content": "x" * size}}]}
    server.queue_behaviours(RawFrames((b"data: %s\n\n" % json.dumps(delta).encode(),)))
    failure = await expect_failure(model, build_request(name))
    assert (failure.code, failure.retryable) == ("too_long", False)
    assert failure.detail == f"a frame of it is more than {MAX_FRAME_BYTES} bytes"


async def test_endless_line_fails_the_call_as_too_long(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    server.queue_behaviours(RawFrames((b"data: " + b"x" * 10_000,) + (b"y" * 100_000,) * 20))
    assert (await expect_failure(model, build_request(name))).code == "too_long"


async def test_oversized_error_in_a_stream_is_not_parsed(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    server.queue_behaviours(RawFrames((build_error_frame(MAX_ERROR_BYTES),)))
    failure = await expect_failure(model, build_request(name))
    assert (failure.code, failure.retryable) == ("error_in_stream", True)
    assert failure.detail == f"an error of more than {MAX_ERROR_BYTES} bytes"


@pytest.mark.parametrize("size", [MAX_ERROR_BYTES, 30_000_000])
async def test_error_response_of_any_size_keeps_its_status_and_code(
    server: OpenAIServer, model: LanguageModel, name: str, size: int
) -> None:
    """Read whole, the larger one keeps litellm busy for minutes."""
    words = "This model's maximum context length is 10 tokens. " + "x" * size
    server.queue_behaviours(
        ModelRefusal(status=400, message=words), ModelRefusal(status=503, message=words)
    )
    assert (await expect_failure(model, build_request(name))).code == "context_overflow"
    failure = await expect_failure(model, build_request(name))
    assert failure.detail.startswith("HTTP 503")


async def test_a_compressed_response_is_not_requested_and_not_unpacked(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    server.queue_behaviours(ModelRefusal(status=429, headers={"content-encoding": "gzip"}))
    assert (await expect_failure(model, build_request(name))).code == "rate_limited"
    assert server.exchanges[0].headers["accept-encoding"] == "identity"


async def test_large_frame_within_the_limit_is_accepted(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    words = ' "error": {' * 5_000
    server.queue_behaviours(ModelAnswer(tokens=(words, "y" * (MAX_FRAME_BYTES - 1_000))))
    assert (await collect_answer(model, build_request(name))).text.startswith(words)


def build_frame(kind: str, body: bytes) -> bytes:
    """Return a frame of a content type with this body."""
    if kind == EVENTS:
        return b"data: %s\r\n\r\n" % body
    return b"%s\n" % body if kind == LINES else (len(body) + 4).to_bytes(4) + body


@pytest.mark.slow("a frame is tried in every way it can be cut")
@given(
    st.sampled_from([EVENTS, LINES, AWS]),
    st.lists(st.sampled_from([0, 10, 5_000, MAX_ERROR_BYTES, MAX_FRAME_BYTES - 50]), max_size=5),
    st.sampled_from([1_000, MAX_FRAME_BYTES + 1, None]),
    st.integers(1, 70_000),
)
def test_oversized_frame_is_detected_for_any_split_of_the_body(
    kind: str, good: list[int], bad: int | None, size: int
) -> None:
    error = b'{"error": {"message": "%s"}}' % (b"x" * MAX_ERROR_BYTES)
    bodies = [b"x" * each for each in good]
    bodies += [error if bad is None else b"x" * bad]
    whole = b"".join(build_frame(kind, body) for body in bodies)
    bounds = FrameBounds(kind)
    code = None
    try:
        for at in range(0, len(whole), size):
            bounds.add_bytes(whole[at : at + size])
        bounds.check_rest()
    except ModelFailure as failure:
        code = failure.code
    assert code == {1_000: None, None: "error_in_stream"}.get(bad, "too_long")


class EndlessBody(httpx.AsyncByteStream):
    def __init__(self) -> None:
        self.is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 20_000
        finally:
            self.is_closed = True


async def test_error_body_is_read_only_up_to_its_limit() -> None:
    endless = EndlessBody()
    body = BoundedBody(endless, httpx.Response(500))
    assert b"".join([piece async for piece in body]) == b"x" * MAX_ERROR_BYTES
    assert endless.is_closed
