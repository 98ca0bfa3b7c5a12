"""The first answer of litellm, which it reads from memory instead of a provider.

At the first answer, litellm and OpenAI's client import and build what they stream with, which holds
the event loop: an answer of one token takes 26 ms of processor time after this one, and 330 ms
without it (`python -m benchmarks.library_patches 'litellm answers early'`, a slow machine). So it
is read where litellm is loaded, which is in a thread.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, cast

import httpx

from turnlog.services.worker.model.litellm_library import LitellmLibrary, stop_accounting

_TOOL: Final[Mapping[str, object]] = {
    "type": "function",
    "function": {"name": "look_up", "parameters": {}},
}

_TOOL_CALL: Final[Mapping[str, object]] = {
    "index": 0,
    "id": "call-1",
    "type": "function",
    "function": {"name": "look_up", "arguments": "{}"},
}


def _build_frame(**fields: object) -> str:
    common = {"id": "answer", "object": "chat.completion.chunk", "created": 0, "model": "memory"}
    return f"data: {json.dumps({**common, **fields})}\n\n"


_FRAMES: Final = (
    _build_frame(choices=[{"index": 0, "delta": {"role": "assistant", "content": "Hello"}}]),
    _build_frame(choices=[{"index": 0, "delta": {"tool_calls": [_TOOL_CALL]}}]),
    _build_frame(choices=[{"index": 0, "delta": {"content": ""}, "finish_reason": "tool_calls"}]),
    _build_frame(choices=[], usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}),
    "data: [DONE]\n\n",
)
"""An answer of words, a call and a usage: what most answers are made of."""


def read_first_answer(library: LitellmLibrary) -> None:
    """Stream an answer through litellm without a network; not for a thread with an event loop."""
    asyncio.run(_read_answer(library))


async def _read_answer(library: LitellmLibrary) -> None:
    create_client = cast("Callable[..., object]", import_module("openai").AsyncOpenAI)
    async with httpx.AsyncClient(transport=httpx.MockTransport(_build_response)) as http:
        stream = await library.acompletion(
            client=create_client(api_key="none", base_url="http://memory", http_client=http),
            model="openai/memory",
            messages=[{"role": "user", "content": "Hello"}],
            tools=[_TOOL],
            stream=True,
            stream_options={"include_usage": True},
            _skip_mcp_handler=True,
        )
        stop_accounting(stream)
        async for _ in stream:
            pass


def _build_response(_request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, text="".join(_FRAMES))
