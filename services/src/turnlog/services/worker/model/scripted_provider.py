from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from turnlog.services.worker.model.exchange import ToolCall
from turnlog.services.worker.model.scripted import (
    Script,
    choose,
    perform,
    sent_tokens,
    tokens,
    tool_calls,
)

PROVIDER = "scripted"

Chunk = dict[str, object]


class ScriptedProvider:
    """What litellm calls for `scripted/...`: a custom provider that streams generic chunks.

    litellm finds a provider in a table of the process, so the registered object holds no state. The
    script of a call is passed as its client.
    """

    async def astreaming(
        self, *, client: Script, messages: Sequence[Mapping[str, object]], **_: object
    ) -> AsyncGenerator[Chunk, None]:
        reply = choose(client, messages)
        async with aclosing(perform(reply)) as said:
            async for word in said:
                yield _chunk(word)
        for index, wanted in enumerate(tool_calls(reply)):
            yield {**_chunk(""), "tool_use": _asked(wanted, index)}
        sent, received = sent_tokens(messages), tokens(reply.text)
        counted = {"prompt_tokens": sent, "completion_tokens": received}
        yield _chunk("", reply.finish, {**counted, "total_tokens": sent + received})


def _chunk(text: str, finish: str = "", usage: Mapping[str, int] | None = None) -> Chunk:
    return {
        "text": text,
        "is_finished": bool(finish),
        "finish_reason": finish,
        "usage": usage,
        "index": 0,
        "tool_use": None,
    }


def _asked(wanted: ToolCall, index: int) -> Chunk:
    function = {"name": wanted.name, "arguments": wanted.arguments}
    return {"id": wanted.id, "type": "function", "function": function, "index": index}
