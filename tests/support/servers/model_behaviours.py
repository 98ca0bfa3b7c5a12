"""How the fake provider answers one request, as data.

A `ModelAnswer` streams tokens and can fail in every way that real providers have shown; a
`ModelRefusal` is an error status; `Silence` never answers. `iterate_steps` and `build_completion`
encode an answer in the OpenAI protocol. Nothing here opens a socket: `openai_server` does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

ERROR: Mapping[str, object] = {"message": "overloaded", "type": "server_error", "code": None}

USAGE: Mapping[str, object] = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}


@dataclass(frozen=True, slots=True)
class AnswerBreak:
    """How an answer fails once `after` of its tokens are sent.

    stall: silence on an open connection. disconnect: the body ends unfinished. error: an error
    frame inside the 200. garbage: a frame that is not JSON.
    """

    after: int
    how: Literal["stall", "disconnect", "error", "garbage"]
    error: Mapping[str, object] = field(default_factory=lambda: ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """Tokens with `pace` seconds between them; token n waits until `gates[n]` is set."""

    tokens: tuple[str, ...] = ("An ", "answer.")
    reasoning: tuple[str, ...] = ()
    """The pieces of what it reasons before its first token; only streamed."""
    finish: str | None = "stop"
    usage: Mapping[str, object] | None = field(default_factory=lambda: USAGE)
    tool_calls: tuple[tuple[str, str], ...] = ()
    """Name and arguments of each call; the arguments are sent in two halves."""
    pace: float = 0.0
    gates: Mapping[int, asyncio.Event] = field(default_factory=dict[int, asyncio.Event])
    breaks: AnswerBreak | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRefusal:
    status: int
    message: str = "refused"
    type: str = "error"
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    nesting: int = 0
    """Levels of lists that the body holds besides."""

    def encode_body(self) -> bytes:
        error = {"message": self.message, "type": self.type, "param": None, "code": self.code}
        deep = "[" * self.nesting + "]" * self.nesting
        return f'{{"error": {json.dumps(error)}, "deep": {deep or "null"}}}'.encode()


@dataclass(frozen=True, slots=True)
class ModelSilence:
    """The request is accepted and never answered."""


@dataclass(frozen=True, slots=True)
class RawFrames:
    """A streamed body given byte for byte, for protocols other than OpenAI's and odd servers."""

    frames: tuple[bytes | asyncio.Event, ...]
    """The bytes; at an event the body waits until it is set."""
    pace: float = 0.0
    """Seconds after each piece."""


@dataclass(frozen=True, slots=True)
class RawResponse:
    """A response given byte for byte; the connection closes after it."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class EchoAnswer:
    """An answer that quotes the last message, so that replies can be told apart."""

    pace: float = 0.0
    gates: Mapping[int, asyncio.Event] = field(default_factory=dict[int, asyncio.Event])

    def build_answer(self, body: Mapping[str, object]) -> ModelAnswer:
        """Build the answer to a request."""
        messages = cast("Sequence[Mapping[str, str]]", body["messages"])
        words = build_echo(messages[-1]["content"]).split(" ")
        tokens = (*(word + " " for word in words[:-1]), words[-1])
        return ModelAnswer(tokens=tokens, pace=self.pace, gates=self.gates)


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """The model of an agent: a plan of two steps, one tool in each, then an echo.

    It decides by the request alone, so a repeated call gets the same answer. Other tools than its
    own, such as the one that ends a phase, it leaves alone. Where there is a picture to be looked
    at, it reasons, looks at it once, and echoes.
    """

    otherwise: EchoAnswer = field(default_factory=EchoAnswer)

    def build_answer(self, body: Mapping[str, object]) -> ModelAnswer:
        """Build the answer to a request."""
        messages = cast("Sequence[Mapping[str, str]]", body["messages"])
        if "time_get_current_time" in _list_offered_tools(body):
            now = ("time_get_current_time", '{"timezone": "UTC"}')
            then = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "UTC"}
            calls = (now, ("time_convert_time", json.dumps(then)))
            return ModelAnswer(tokens=(), finish="tool_calls", tool_calls=calls)
        if "gallery_show" in _list_offered_tools(body):
            return _look_and_echo(body)
        if "as JSON: {steps" in messages[0]["content"]:
            return ModelAnswer(
                tokens=('{"steps": [{"goal": "Look."}, ', '{"goal": "Look again."}]}')
            )
        return self.otherwise.build_answer(body)


def _look_and_echo(body: Mapping[str, object]) -> ModelAnswer:
    messages = cast("Sequence[Mapping[str, object]]", body["messages"])
    rounds = sum(each["role"] == "tool" for each in messages)
    reasoning = (f"Round {rounds + 1}.",)
    if rounds == 0:
        look = (("gallery_show", "{}"),)
        return ModelAnswer(tokens=(), reasoning=reasoning, finish="tool_calls", tool_calls=look)
    (asked,) = [each for each in messages if each["role"] == "user"][:1]
    words = build_echo(_read_text(asked["content"])).split(" ")
    tokens = (*(f"{word} " for word in words[:-1]), words[-1])
    return ModelAnswer(tokens=tokens, reasoning=reasoning)


def _read_text(content: object) -> str:
    """Return the text of a content that may have pictures beside it."""
    if isinstance(content, str):
        return content
    pieces = cast("Sequence[Mapping[str, str]]", content)
    return "".join(each["text"] for each in pieces if each["type"] == "text")


def build_echo(text: str) -> str:
    """Return the echo of a text."""
    return f"You said, and I quote: {text} That is all there is to it."


def _list_offered_tools(body: Mapping[str, object]) -> list[str]:
    tools = cast("Sequence[Mapping[str, Mapping[str, str]]]", body.get("tools", ()))
    return [tool["function"]["name"] for tool in tools]


ModelBehaviour = (
    ModelAnswer | EchoAnswer | AgentAnswer | ModelRefusal | ModelSilence | RawFrames | RawResponse
)


@dataclass(frozen=True, slots=True)
class StreamWait:
    """Continue when `gate` is set; without a gate, only when the client disconnects."""

    gate: asyncio.Event | None


@dataclass(frozen=True, slots=True)
class StreamPause:
    seconds: float


@dataclass(frozen=True, slots=True)
class StreamDrop:
    """Close the connection with the body unfinished."""


StreamStep = bytes | StreamWait | StreamPause | StreamDrop


def iterate_raw_steps(raw: RawFrames) -> Iterator[StreamStep]:
    for frame in raw.frames:
        yield StreamWait(frame) if isinstance(frame, asyncio.Event) else frame
        if raw.pace:
            yield StreamPause(raw.pace)


def iterate_steps(answer: ModelAnswer, model: str, *, with_usage: bool) -> Iterator[StreamStep]:
    """Iterate the streamed form: one server-sent event for each frame."""
    yield _encode_chunk(model, {"role": "assistant", "content": ""})
    for piece in answer.reasoning:
        yield _encode_chunk(model, {"reasoning_content": piece})
    for number, token in enumerate(answer.tokens):
        yield from _iterate_interruptions(answer, number)
        yield _encode_chunk(model, {"content": token})
        yield StreamPause(answer.pace)
    yield from _iterate_interruptions(answer, len(answer.tokens))
    for index, (name, arguments) in enumerate(answer.tool_calls):
        half = len(arguments) // 2
        yield _encode_tool_chunk(
            model, index, {"name": name, "arguments": ""}, call_id=f"call_{index}"
        )
        yield _encode_tool_chunk(model, index, {"arguments": arguments[:half]})
        yield _encode_tool_chunk(model, index, {"arguments": arguments[half:]})
    if answer.finish is not None:
        yield _encode_chunk(model, {}, answer.finish)
    if answer.usage is not None and with_usage:
        yield _encode_frame({**_build_chunk_head(model), "choices": [], "usage": answer.usage})
    yield b"data: [DONE]\n\n"


def build_completion(answer: ModelAnswer, model: str) -> Mapping[str, object]:
    """Build the form without streaming."""
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(answer.tool_calls)
    ]
    message: dict[str, object] = {"role": "assistant", "content": "".join(answer.tokens)}
    choice = {
        "index": 0,
        "message": {**message, "tool_calls": calls} if calls else message,
        "finish_reason": answer.finish,
    }
    head = {**_build_chunk_head(model), "object": "chat.completion"}
    return {**head, "choices": [choice], "usage": answer.usage}


def _iterate_interruptions(answer: ModelAnswer, number: int) -> Iterator[StreamStep]:
    if number in answer.gates:
        yield StreamWait(answer.gates[number])
    if answer.breaks is not None and answer.breaks.after == number:
        yield from _iterate_break(answer.breaks)


def _iterate_break(how: AnswerBreak) -> Iterator[StreamStep]:
    match how.how:
        case "stall":
            yield StreamWait(None)
        case "disconnect":
            yield StreamDrop()
        case "error":
            yield _encode_frame({"error": how.error})
        case "garbage":
            yield b'data: {"choices": [{"delta"\n\n'


def _encode_tool_chunk(
    model: str, index: int, function: Mapping[str, str], call_id: str | None = None
) -> bytes:
    named = {} if call_id is None else {"id": call_id, "type": "function"}
    return _encode_chunk(model, {"tool_calls": [{"index": index, **named, "function": function}]})


def _encode_chunk(model: str, delta: Mapping[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _encode_frame({**_build_chunk_head(model), "choices": [choice]})


def _build_chunk_head(model: str) -> Mapping[str, object]:
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}


def _encode_frame(body: Mapping[str, object]) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"
