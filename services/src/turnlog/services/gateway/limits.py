"""Limits: what a request body may be, enforced before anything else looks at it.

Bytes are counted as they come, whatever was announced, and a client has a fixed time to send
them; so a connection costs a bounded amount of memory for a bounded time. What passes is strict
JSON. A refused body is read on for a while and thrown away, since a client that is still
sending would hear a reset instead of the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnlog.events.errors import Refused, TooLarge
from turnlog.services.gateway.problems import answer
from turnlog.services.gateway.strict_json import check_json
from turnlog.services.runtime.aside import aside

AT_ONCE: Final = 1024 * 1024
"""Bytes that are checked in no time."""
THROWN_AWAY: Final = 8 * 1024 * 1024
"""Bytes of a refused body that are still read."""


class _Gone(Exception):
    """The client went away while it was sending."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Stands in front of an application."""

    app: ASGIApp
    most_bytes: int
    seconds: float
    larger: Mapping[str, int]
    """Paths whose bodies may have more bytes, and how many."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on with its body read and checked, or answer what is wrong with it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            most = self.larger.get(scope["path"], self.most_bytes)
            body = await self._checked_body(Headers(scope=scope), receive, most)
        except Refused as refused:
            await answer(refused, closing=True)(scope, receive, send)
        except _Gone:
            return
        else:
            await self.app(scope, _once(body, receive), send)

    async def _checked_body(self, headers: Headers, receive: Receive, most: int) -> bytes:
        if "content-length" not in headers and "transfer-encoding" not in headers:
            return b""
        try:
            async with asyncio.timeout(self.seconds):
                body = await _read(receive, most)
        except TimeoutError:
            detail = f"the body did not come within {self.seconds:g} s"
            raise Refused("too-slow", detail, field="body", fix="send it in one go") from None
        if body:
            _check_headers(headers)
            await _check(body)
        return body


async def _read(receive: Receive, most: int) -> bytes:
    body, size, more = bytearray(), 0, True
    while more and size <= max(most, THROWN_AWAY):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        chunk: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(chunk)
        if size <= most:
            body += chunk
        else:
            body.clear()
    if size > most:
        raise TooLarge("body", size, most)
    return bytes(body)


async def _check(body: bytes) -> None:
    if len(body) <= AT_ONCE:
        return check_json(body)
    # A large one takes a while, in which others are to be answered
    return await aside(lambda: check_json(body))


def _check_headers(headers: Headers) -> None:
    encoding = headers.get("content-encoding", "identity")
    if encoding != "identity":
        detail = f"a body encoded as {encoding[:80]!r} is not taken"
        fix = "send it as it is, without Content-Encoding"
        raise Refused("unsupported-encoding", detail, field="Content-Encoding", fix=fix)
    media = headers.get("content-type", "none").partition(";")[0].strip().lower()
    if media != "application/json":
        detail = f"a body of type {media[:80]!r} is not taken"
        fix = "send JSON with Content-Type: application/json"
        raise Refused("unsupported-media", detail, field="Content-Type", fix=fix)


def _once(body: bytes, receive: Receive) -> Receive:
    """Give the body as one message, then whatever else comes, such as the client going away."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return first.pop() if first else await receive()

    return received
