"""A server whose answers are hostile, each by the name of the session in its path."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import repeat
from typing import Final

_PIECE: Final = b"x" * 1_000_000

_JSON: Final = "Content-Type: application/json"

_STREAM: Final = "Content-Type: text/event-stream"


def _answer(status: str, *headers: str) -> bytes:
    lines = (f"HTTP/1.1 {status}", *headers, "Connection: close")
    return "\r\n".join((*lines, "", "")).encode()


def _iterate_bomb() -> Iterator[bytes]:
    yield _answer("200 OK", _JSON, "Content-Encoding: gzip")
    yield gzip.compress(b" " * 70_000_000)


def _iterate_endless(*headers: str, start: bytes = b"") -> Iterator[bytes]:
    yield _answer("200 OK", *headers)
    yield start
    yield from repeat(_PIECE)


def _iterate_data_lines() -> Iterator[bytes]:
    yield _answer("200 OK", _STREAM)
    yield from repeat(b"data: " + _PIECE + b"\n")


def _iterate_redirect() -> Iterator[bytes]:
    yield _answer("307 Temporary Redirect", "Location: /v1/sessions/elsewhere", "Content-Length: 0")


def _iterate_text(text: bytes, *headers: str) -> Iterator[bytes]:
    yield _answer("200 OK", *headers)
    yield text


def build_answer(name: str) -> Iterator[bytes]:
    """Return the pieces of the answer that has a name of `HOSTILE_ANSWERS` or `HOSTILE_STREAMS`."""
    answers: Mapping[str, Iterator[bytes]] = {
        "endless-body": _iterate_endless(_JSON),
        "gzip-bomb": _iterate_bomb(),
        "redirect": _iterate_redirect(),
        "no-json": _iterate_text(b"<html>", "Content-Type: text/html"),
        "deep-json": _iterate_text(b"[" * 200_000, _JSON),
        "endless-line": _iterate_endless(_STREAM, start=b"data: "),
        "endless-event": _iterate_data_lines(),
        "deep-event": _iterate_text(b"event: done\ndata: " + b"[" * 200_000 + b"\n\n", _STREAM),
        "no-utf-8": _iterate_text(b"event: done\ndata: \xff\xfe\n\n", _STREAM),
    }
    return answers[name]


HOSTILE_ANSWERS: Final = ("endless-body", "gzip-bomb", "redirect", "no-json", "deep-json")

HOSTILE_STREAMS: Final = (
    *("endless-line", "endless-event", "gzip-bomb", "redirect"),
    *("deep-event", "no-utf-8"),
)


@dataclass
class HostileHttpServer:
    """The address of a running server, and the paths that were requested of it."""

    url: str = ""
    paths: list[str] = field(default_factory=list[str])

    async def serve_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode()
            self.paths.append(path)
            for piece in build_answer(path.split("/")[3]):
                writer.write(piece)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def run_hostile_server() -> AsyncGenerator[HostileHttpServer]:
    """Run the server on a free port."""
    hostile = HostileHttpServer()
    server = await asyncio.start_server(hostile.serve_request, "127.0.0.1", 0)
    async with server:
        hostile.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield hostile
