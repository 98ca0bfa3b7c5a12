from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from turnlog.services.worker.model.exchange import ModelToolCall
from turnlog.services.worker.model.scripted import (
    ModelScript,
    choose_reply,
    stream_reply,
    count_sent_tokens,
    count_tokens,
    build_tool_calls,
)

SCRIPTED_PROVIDER = "scripted"

LitellmChunk = dict[str, object]


class ScriptedProvider:
    """What litellm calls for `scripted/...`: a custom provider that streams generic chunks.

    litellm finds a provider in a table of the process, so the registered object holds no state. The
    script of a call is passed as its client.
    """

    async def astreaming(
        self, *, client: ModelScript, messages: Sequence[Mapping[str, object]], **_: object
    ) -> AsyncGenerator[LitellmChunk, None]:
        reply = choose_reply(client, messages)
        async with aclosing(stream_reply(reply)) as said:
            async for word in said:
                yield _build_chunk(word)
        for index, wanted in enumerate(build_tool_calls(reply)):
            yield {**_build_chunk(""), "tool_use": _build_tool_use(wanted, index)}
        sent, received = count_sent_tokens(messages), count_tokens(reply.text)
        counted = {"prompt_tokens": sent, "completion_tokens": received}
        yield _build_chunk("", reply.finish, {**counted, "total_tokens": sent + received})


def _build_chunk(text: str, finish: str = "", usage: Mapping[str, int] | None = None) -> LitellmChunk:
    return {
        "text": text,
        "is_finished": bool(finish),
        "finish_reason": finish,
        "usage": usage,
        "index": 0,
        "tool_use": None,
    }


def _build_tool_use(wanted: ModelToolCall, index: int) -> LitellmChunk:
    function = {"name": wanted.name, "arguments": wanted.arguments}
    return {"id": wanted.id, "type": "function", "function": function, "index": index}
