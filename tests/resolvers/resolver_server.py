"""A resolver over HTTP on loopback that gives the answers a test sets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.support.processes.process_host import find_free_port

Behaviour = dict[str, Any] | bytes | int | Literal["silence", "hang up"]
"""A resolver outcome, a raw body, a status, or no answer."""


@dataclass(repr=False)
class ResolverServer:
    """A resolver; it answers `{}` unless a behaviour is set."""

    port: int
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    heads: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """The headers of each request, their names in lower case."""
    _behaviours: list[Behaviour] = field(default_factory=list[Behaviour])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/resolve"

    def set_behaviours(self, *behaviours: Behaviour) -> None:
        """Set the behaviours of the next requests, one a request."""
        self._behaviours = [*behaviours]

    async def answer_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()[1:-1]
            head = {name.lower(): value.strip() for name, _, value in map(_split_line, lines)}
            self.heads.append(head)
            length = int(head["content-length"])
            self.requests.append(json.loads(await reader.readexactly(length)))
            behaviour = self._behaviours.pop(0) if self._behaviours else {}
            if behaviour == "silence":
                await reader.read()
            elif behaviour != "hang up":
                writer.write(_format_response(behaviour))
                await writer.drain()
        finally:
            writer.close()


def _split_line(line: str) -> tuple[str, str, str]:
    return line.partition(":")


def _format_response(behaviour: Behaviour) -> bytes:
    status = behaviour if isinstance(behaviour, int) else 200
    body = behaviour if isinstance(behaviour, bytes) else json.dumps(behaviour).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


@asynccontextmanager
async def start_resolver_server() -> AsyncGenerator[ResolverServer]:
    """Start a resolver server on a free port."""
    answerer = ResolverServer(find_free_port())
    server = await asyncio.start_server(answerer.answer_request, "127.0.0.1", answerer.port)
    try:
        yield answerer
    finally:
        server.close()
