"""Servers of OpenAI's protocol, called directly: their oddities, and what is sent to them."""

from __future__ import annotations

import asyncio
import json
import os
import traceback
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace

import pytest

from tests.services.model.conftest import KEY
from tests.services.model.model_requests import (
    QUESTION,
    build_request,
    collect_answer,
    expect_failure,
    read_first_text,
)
from tests.support.servers.model_behaviours import ModelAnswer, ModelRefusal, RawFrames, RawResponse
from tests.support.servers.openai_server import OpenAIServer
from turnlog.services.worker.model.call_timeouts import CallTimeouts
from turnlog.services.worker.model.direct_model import DirectModel, find_chat_endpoint
from turnlog.services.worker.model.model_types import (
    FailureCode,
    ModelFailure,
    ModelToolCall,
    ModelUsage,
)

NAME = "openai/heron"

LONG = 60.0

SHORT = 0.2


@pytest.fixture
def timeouts() -> CallTimeouts:
    return CallTimeouts(LONG, LONG, LONG, LONG)


@pytest.fixture
async def direct(timeouts: CallTimeouts) -> AsyncIterator[DirectModel]:
    model = DirectModel(os.environ, timeouts)
    yield model
    await model.close()


def encode_chunk(delta: object, finish: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return encode_event({"id": "c-1", "model": "heron", "choices": [choice], **more})


def encode_event(value: object) -> bytes:
    return b"data: %s\n\n" % json.dumps(value).encode()


def encode_text(text: str) -> bytes:
    return encode_chunk({"content": text})


END = encode_chunk({}, "stop")

DONE = b"data: [DONE]\n\n"

USAGE_FIELDS = {"prompt_tokens": 7, "completion_tokens": 2}

USAGE = encode_event({"id": "c-1", "choices": [], "usage": USAGE_FIELDS})

COUNTED = ModelUsage(7, 2)


@pytest.mark.parametrize(
    ("frames", "usage"),
    [
        ((encode_text("The "), encode_text("reeds."), END, USAGE, DONE), COUNTED),
        ((encode_text("The "), encode_text("reeds."), END, DONE), None),
        ((encode_text("The "), encode_text("reeds."), END, USAGE), COUNTED),
        ((encode_text("The "), encode_text("reeds."), END), None),
        ((encode_text("The "), encode_text("reeds."), END.strip()), None),
        (
            (
                encode_chunk({"role": "assistant"}),
                encode_chunk({"role": "assistant", "content": None}, usage=None),
                encode_chunk({"content": ""}),
                encode_chunk(None),
                encode_event({"id": "c-1", "choices": None}),
                encode_text("The "),
                encode_chunk({"content": "reeds.", "tool_calls": None}, ""),
                END,
                DONE,
            ),
            None,
        ),
        (
            (
                b": keep-alive\n\n",
                b"\n\n\n",
                encode_text("The "),
                b": ping\nid: 7\nretry: 10\n\n",
                encode_text("reeds."),
                END,
                DONE,
            ),
            None,
        ),
        ((b"\xef\xbb\xbf" + encode_text("The "), encode_text("reeds."), END, DONE), None),
        (
            tuple(
                each.replace(b"\n", end)
                for end in (b"\r\n",)
                for each in (encode_text("The "), encode_text("reeds."), END, DONE)
            ),
            None,
        ),
        (
            tuple(
                each.replace(b"\n", b"\r")
                for each in (encode_text("The "), encode_text("reeds."), END, DONE)
            ),
            None,
        ),
        (
            tuple(
                each.replace(b'"choices"', b'\ndata: "choices"')
                for each in (encode_text("The "), encode_text("reeds."), END, DONE)
            ),
            None,
        ),
        (
            tuple(
                each.replace(b"data: ", b"event: message\ndata:")
                for each in (encode_text("The "), encode_text("reeds."), END, DONE)
            ),
            None,
        ),
        (
            (
                encode_chunk({"content": "The "}, usage={"prompt_tokens": 7}),
                encode_chunk({"content": "reeds."}, usage={"completion_tokens": 1}),
                encode_chunk({}, "stop", usage={"prompt_tokens": 7, "completion_tokens": 2}),
                DONE,
                encode_text("After the end."),
            ),
            COUNTED,
        ),
    ],
    ids=[
        "usage in a chunk of its own",
        "no usage",
        "no end mark",
        "neither",
        "no blank line at the end",
        "empty deltas and null content",
        "comments, blank lines and other fields",
        "byte order mark",
        "CRLF",
        "CR",
        "data of several lines",
        "event names and no space",
        "usage in every chunk, and text after the end",
    ],
)
@pytest.mark.parametrize("size", [None, 1])
async def test_answer_is_parsed_in_every_server_dialect_and_chunking(
    server: OpenAIServer,
    direct: DirectModel,
    frames: Sequence[bytes],
    usage: ModelUsage | None,
    size: int | None,
) -> None:
    whole = b"".join(frames)
    pieces = frames if size is None else [bytes([each]) for each in whole]
    server.queue_behaviours(RawFrames(tuple(pieces)))
    answered = await collect_answer(direct, build_request(NAME))
    assert answered.deltas == ("The ", "reeds.")
    finished = answered.finished
    assert (finished.finish_reason, finished.usage) == ("stop", usage)
    assert (finished.model, finished.response_id) == ("heron", "c-1")


async def test_tool_calls_are_assembled_from_any_kind_of_chunks(
    server: OpenAIServer, direct: DirectModel
) -> None:
    def part(index: int | None, **more: object) -> bytes:
        return encode_chunk({"content": None, "tool_calls": [{"index": index, **more}]})

    whole = {"name": "wait", "arguments": "{}"}
    server.queue_behaviours(
        RawFrames(
            (
                part(0, id="a", type="function", function={"name": "look", "arguments": None}),
                part(0, function={"arguments": '{"where":'}),
                part(0, id="a", function={"name": None, "arguments": '"reeds"}'}),
                part(1, id="b", function=whole),
                # Ollama numbers none of them, and sends each whole.
                part(None, id="c", function=whole),
                encode_chunk({}, "stop"),
                USAGE,
                DONE,
            )
        )
    )
    finished = (await collect_answer(direct, build_request(NAME))).finished
    assert finished.tool_calls == (
        ModelToolCall("a", "look", '{"where":"reeds"}'),
        ModelToolCall("b", "wait", "{}"),
        ModelToolCall("c", "wait", "{}"),
    )
    assert finished.finish_reason == "tool_calls"


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("timeouts", [CallTimeouts(LONG, LONG, SHORT, LONG)])
async def test_reasoning_counts_as_first_token_but_not_as_text(
    server: OpenAIServer, direct: DirectModel, field: str
) -> None:
    thought = encode_chunk({field: "Hm."})
    server.queue_behaviours(RawFrames((thought, encode_text("Yes."), END, DONE)))
    assert (await collect_answer(direct, build_request(NAME))).deltas == ("Yes.",)
    server.queue_behaviours(RawFrames((thought, asyncio.Event())))
    assert (await expect_failure(direct, build_request(NAME))).code == "timeout_stalled"


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ((encode_text("The "), encode_event({"error": {"code": "overloaded"}})), "error_in_stream"),
        ((encode_event({"error": "no such luck"}),), "error_in_stream"),
        ((encode_event({"object": "error", "message": "?", "code": 400}),), "error_in_stream"),
        ((encode_text("The "), b"data: [1]\n\n"), "malformed"),
        ((encode_text("The "), b"data: \xff\xfe\n\n"), "malformed"),
        ((encode_text("The "), b'data: {"choices": [{"del'), "malformed"),
        ((encode_text("The "), DONE), "incomplete"),
        ((encode_text("The "),), "incomplete"),
        ((DONE,), "empty"),
        ((b": nothing\n\n",), "empty"),
    ],
)
async def test_invalid_stream_is_a_retryable_failure(
    server: OpenAIServer, direct: DirectModel, frames: tuple[bytes, ...], code: FailureCode
) -> None:
    server.queue_behaviours(RawFrames(frames))
    failure = await expect_failure(direct, build_request(NAME))
    assert (failure.code, failure.retryable) == (code, True)


@pytest.mark.parametrize(
    ("response", "code", "detail"),
    [
        (RawResponse(200, {"content-type": "text/html"}, b"<p>Sign in</p>"), "malformed", "stream"),
        (
            RawResponse(200, {"content-type": "application/json"}, b'{"choices": []}'),
            "malformed",
            "stream",
        ),
        (
            RawResponse(200, {"content-encoding": "gzip"}, b"\x1f\x8b"),
            "malformed",
            "compressed",
        ),
        (RawResponse(204, {}, b""), "empty", ""),
        (RawResponse(401, {"content-encoding": "gzip"}, b"\x1f\x8b"), "unauthorised", "HTTP 401"),
        (
            RawResponse(400, {"content-length": "900"}, b"maximum context length"),
            *("context_overflow", "HTTP 400"),
        ),
        (
            RawResponse(400, {}, b'{"error": {"code": 400, "type": "exceed_context_size_error"}}'),
            "context_overflow",
            "exceed_context_size_error",
        ),
    ],
)
async def test_response_that_is_not_a_stream_fails_with_its_content_as_detail(
    server: OpenAIServer,
    direct: DirectModel,
    response: RawResponse,
    code: FailureCode,
    detail: str,
) -> None:
    server.queue_behaviours(response)
    failure = await expect_failure(direct, build_request(NAME))
    assert failure.code == code
    assert detail in failure.detail


async def test_server_that_does_not_stream_answers_with_one_object(
    server: OpenAIServer, direct: DirectModel
) -> None:
    answer = {
        "id": "whole-1",
        "object": "chat.completion",
        "choices": [{"message": {"content": "Good day."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3},
    }
    body = json.dumps(answer, indent=1).encode()
    server.queue_behaviours(RawResponse(200, {"content-type": "application/json"}, body))
    answered = await collect_answer(direct, build_request(NAME))
    end = answered.finished
    assert (answered.deltas, end.finish_reason) == (("Good day.",), "stop")
    assert (end.response_id, end.usage) == ("whole-1", ModelUsage(9, 3))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirect_is_not_followed(
    server: OpenAIServer, direct: DirectModel, status: int
) -> None:
    async with OpenAIServer() as elsewhere:
        server.queue_behaviours(RawResponse(status, {"location": f"{elsewhere.url}/x"}, b""))
        failure = await expect_failure(direct, build_request(NAME))
        assert elsewhere.exchanges == []
    assert (failure.code, failure.retryable) == ("bad_request", False)
    assert f"HTTP {status}" in failure.detail


async def test_answer_cut_off_after_its_finish_reason_lacks_only_usage(
    server: OpenAIServer, direct: DirectModel
) -> None:
    body = b"%x\r\n%s\r\n" % (len(encode_text("So.") + END), encode_text("So.") + END)
    head = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
    server.queue_behaviours(RawResponse(200, head, body))
    answered = await collect_answer(direct, build_request(NAME))
    assert (answered.text, answered.finished.usage) == ("So.", None)


@pytest.mark.parametrize("timeouts", [CallTimeouts(LONG, SHORT, LONG, LONG)])
async def test_partial_lines_do_not_reset_the_first_token_timeout(
    server: OpenAIServer, direct: DirectModel
) -> None:
    slow = tuple(bytes([each]) for each in encode_text("The reeds.") * 100)
    server.queue_behaviours(RawFrames(slow, pace=0.02))
    assert (await expect_failure(direct, build_request(NAME))).code == "timeout_first_token"


async def test_request_body_is_sent_exactly_as_recorded(
    server: OpenAIServer, direct: DirectModel
) -> None:
    body = b'{"model":"heron",  "stream":true}'
    request = build_request(NAME)
    await collect_answer(direct, replace(request, messages=(), body=body))
    await collect_answer(direct, request)
    sent, encoded = server.exchanges
    assert sent.raw == body
    assert encoded.raw.decode() == (
        f'{{"messages":[{{"content":"{QUESTION}","role":"user"}}],"model":"heron","stream":true,'
        '"stream_options":{"include_usage":true}}'
    )
    assert sent.headers["authorization"] == f"Bearer {KEY}"


async def test_connection_is_reused_only_after_a_complete_answer(
    server: OpenAIServer, direct: DirectModel
) -> None:
    server.keeps_connections = True
    for _ in range(8):
        await collect_answer(direct, build_request(NAME))
    assert server.connection_count < 8
    server.queue_behaviours(ModelAnswer(gates={1: asyncio.Event()}))
    async with aclosing(direct.stream(build_request(NAME))) as stream:
        await read_first_text(stream)
        before = server.connection_count
    await collect_answer(direct, build_request(NAME))
    assert server.connection_count == before + 1


@pytest.mark.parametrize(
    "behaviour",
    [
        ModelRefusal(status=401, message=f"wrong key {KEY}", type=KEY, code=KEY),
        RawFrames((encode_event({"error": {"code": KEY, "message": KEY + QUESTION}}),)),
        RawFrames((b"data: \xff" + KEY.encode() + b"\n\n",)),
        RawResponse(302, {"location": f"http://{KEY}/"}, b""),
        RawResponse(200, {"content-type": KEY}, KEY.encode()),
    ],
)
async def test_failure_does_not_contain_the_api_key(
    server: OpenAIServer,
    direct: DirectModel,
    behaviour: ModelRefusal | RawFrames | RawResponse,
) -> None:
    server.queue_behaviours(behaviour)
    failure = await expect_failure(direct, build_request(NAME))
    text = "".join(traceback.format_exception(failure)) + repr(vars(failure))
    context = repr(failure.__context__)
    assert KEY not in text + context
    assert QUESTION not in text + context


AT_H = "http://h/v1/chat/completions"


@pytest.mark.parametrize(
    ("model", "environ", "url", "key"),
    [
        ("openai/m", {"OPENAI_API_KEY": "k"}, "https://api.openai.com/v1/chat/completions", "k"),
        ("openai/m", {"OPENAI_BASE_URL": "http://h/v1/"}, AT_H, None),
        (
            "hosted_vllm/a/b",
            {"HOSTED_VLLM_API_BASE": "http://h/v1"},
            AT_H,
            None,
        ),
        ("ollama/m", {}, "http://localhost:11434/v1/chat/completions", None),
        ("ollama_chat/m", {"OLLAMA_API_BASE": "http://h/v1"}, AT_H, None),
        ("llamafile/m", {}, "http://127.0.0.1:8080/v1/chat/completions", None),
        (
            "lm_studio/m",
            {"LM_STUDIO_API_BASE": "http://h/v1", "LM_STUDIO_API_KEY": " k\n"},
            AT_H,
            "k",
        ),
    ],
)
def test_endpoint_and_key_are_read_from_the_variables_of_litellm(
    model: str, environ: dict[str, str], url: str, key: str | None
) -> None:
    address = find_chat_endpoint(model, environ)
    assert (address.url, address.key) == (url, key)


@pytest.mark.parametrize(
    ("model", "environ", "code"),
    [
        ("openai/m", {}, "unauthorised"),
        ("hosted_vllm/m", {}, "bad_request"),
        ("openai/m", {"OPENAI_API_BASE": "file:///etc", "OPENAI_API_KEY": "k"}, "bad_request"),
    ],
)
def test_missing_endpoint_variables_are_reported_by_name(
    model: str, environ: dict[str, str], code: FailureCode
) -> None:
    with pytest.raises(ModelFailure) as caught:
        find_chat_endpoint(model, environ)
    assert (caught.value.code, caught.value.retryable) == (code, False)
    assert "_API_" in caught.value.detail
