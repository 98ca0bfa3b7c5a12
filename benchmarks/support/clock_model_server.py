"""A model server whose tokens are clock readings, over the OpenAI protocol, at a given pace.

Each token is the clock reading at which it was sent, so its receiver knows how long it took. All
processes of a machine read the same clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

END_FRAME: Final = b"data: [DONE]\n\n"

RESPONSE_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
    b"connection: close\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class ModelSpeech:
    """What is streamed to each request."""

    tokens: int
    pace: float
    """Seconds between two tokens."""


@asynccontextmanager
async def run_server(speech: ModelSpeech) -> AsyncGenerator[str]:
    """Serve, and yield the value for `OPENAI_API_BASE`."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _send_answer(speech, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # The client has disconnected.
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1_000)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


@asynccontextmanager
async def run_server_process(speech: ModelSpeech) -> AsyncGenerator[str]:
    """Serve from a process of its own, whose processor time is not counted."""
    arguments = ("--tokens", str(speech.tokens), "--pace", str(speech.pace))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, *arguments, stdout=PIPE
    )
    assert process.stdout
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        await process.wait()


async def _send_answer(
    speech: ModelSpeech, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
    await reader.readexactly(int(length))
    writer.write(RESPONSE_HEAD)
    due = time.monotonic()
    for _ in range(speech.tokens):
        writer.write(_encode_chunk({"content": f"{time.monotonic_ns()} "}, None))
        await writer.drain()
        due += speech.pace
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    writer.write(_encode_chunk({}, "stop") + _encode_framed(END_FRAME) + b"0\r\n\r\n")
    await writer.drain()


def _encode_chunk(delta: dict[str, str], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "b", "object": "chat.completion.chunk", "created": 0, "model": "bench"}
    return _encode_framed(b"data: %b\n\n" % json.dumps({**chunk, "choices": [choice]}).encode())


def _encode_framed(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


async def _serve_forever(speech: ModelSpeech) -> None:
    async with run_server(speech) as url:
        print(url, flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Serve until stopped; prints the address."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--pace", type=float, required=True)
    options = parser.parse_args()
    asyncio.run(_serve_forever(ModelSpeech(options.tokens, options.pace)))


if __name__ == "__main__":
    main()
