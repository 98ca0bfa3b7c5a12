"""ASGI middleware: limits for request bodies, and the tracing span of a request.

`BodyLimitMiddleware` counts the received bytes, whatever `Content-Length` says, and limits the time
to send them; so a connection uses bounded memory for a bounded time. It passes only strict JSON. It
reads and discards some of a refused body, because a client that is still sending would see a
connection reset instead of the response. The body of an upload is passed on as it arrives.

`TracingMiddleware` opens a span for each request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnlog.contract.api_paths import API
from turnlog.events.errors import Refused, TooLarge
from turnlog.projections.blueprint.sent_names import quote_sent_name
from turnlog.services.http.problem_details import create_error_response
from turnlog.services.http.request_checks import check_query_size
from turnlog.services.http.streamed_bodies import (
    MAX_DISCARDED_BYTES,
    StreamedBody,
    has_streamed_body,
)
from turnlog.services.http.strict_json import check_strict_json
from turnlog.services.platform.concurrency import run_text_work
from turnlog.services.platform.telemetry.traces import Tracing, record_response, record_route


class _ClientDisconnected(Exception):
    """The client disconnected while it was sending the body."""


@dataclass(frozen=True, slots=True)
class BodyLimitMiddleware:
    """ASGI middleware that reads and checks the body before the application runs.

    A query of too many parameters is refused here too.
    """

    app: ASGIApp
    most_bytes: int
    seconds: float
    larger: Mapping[str, int]
    """Larger limits in bytes, by the template of a path."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request with its checked body, or send the error response."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            check_query_size(scope["query_string"])
            if has_streamed_body(scope):
                await self._pass_streamed_body(scope, receive, send)
                return
            most = self._find_limit(scope["path"])
            body = await self._read_checked_body(Headers(scope=scope), receive, most)
        except Refused as refused:
            await create_error_response(refused, closing=True)(scope, receive, send)
        except (_ClientDisconnected, ClientDisconnect):
            return
        else:
            await self.app(scope, _replay_body(body, receive), send)

    async def _pass_streamed_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        _check_encoding(Headers(scope=scope))
        body = StreamedBody(
            receive=receive, send=send, seconds=self.seconds, part_bytes=self.most_bytes
        )
        await self.app(scope, body.receive_piece, body.send_after_body)

    def _find_limit(self, path: str) -> int:
        if (most := self.larger.get(path)) is not None:
            return most
        templates = (each for each in self.larger if "{" in each and has_template(path, each))
        return self.larger.get(next(templates, ""), self.most_bytes)

    async def _read_checked_body(self, headers: Headers, receive: Receive, max_bytes: int) -> bytes:
        if "content-length" not in headers and "transfer-encoding" not in headers:
            return b""
        try:
            async with asyncio.timeout(self.seconds):
                body = await _read_body(receive, max_bytes)
        except TimeoutError:
            detail = f"the body did not arrive within {self.seconds:g} s"
            raise Refused("too-slow", detail, field="body", fix="send it in one go") from None
        if body:
            _check_body_headers(headers)
            await run_text_work(partial(check_strict_json, body), len(body))
        return body


def has_template(path: str, template: str) -> bool:
    """Return whether a path has a template such as `/v1/sessions/{session}/turns`."""
    steps, names = path.split("/"), template.split("/")
    pairs = zip(steps, names, strict=False)
    return len(steps) == len(names) and all(
        name.startswith("{") or step == name for step, name in pairs
    )


async def _read_body(receive: Receive, max_bytes: int) -> bytes:
    body, size, more = bytearray(), 0, True
    while more and size <= max(max_bytes, MAX_DISCARDED_BYTES):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientDisconnected
        chunk: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(chunk)
        if size <= max_bytes:
            body += chunk
        else:
            body.clear()
    if size > max_bytes:
        raise TooLarge("body", size, max_bytes)
    return bytes(body)


def _check_encoding(headers: Headers) -> None:
    encoding = headers.get("content-encoding", "identity")
    if encoding != "identity":
        detail = f"the gateway does not accept a body encoded as {quote_sent_name(encoding)}"
        fix = "send it as it is, without Content-Encoding"
        raise Refused("unsupported-encoding", detail, field="Content-Encoding", fix=fix)


def _check_body_headers(headers: Headers) -> None:
    _check_encoding(headers)
    media = headers.get("content-type", "none").partition(";")[0].strip().lower()
    if media != "application/json":
        detail = f"the gateway does not accept a body of type {quote_sent_name(media)}"
        fix = "send JSON with Content-Type: application/json"
        raise Refused("unsupported-media", detail, field="Content-Type", fix=fix)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that replays the body as one message, then forwards later messages."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_limited() -> Message:
        return first.pop() if first else await receive()

    return receive_limited


@dataclass(frozen=True, slots=True)
class TracingMiddleware:
    """ASGI middleware that runs a request within its tracing span.

    The span continues the trace of the client, if there is one, and has the route template as its
    name to keep the number of names small. The log records the client's trace context even when no
    spans are exported.
    """

    app: ASGIApp
    tracing: Tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(f"{API}/"):
            await self.app(scope, receive, send)
            return
        method: str = scope["method"]
        parent = Headers(scope=scope).get("traceparent")
        with self.tracing.start_request_span(method, parent) as span:

            async def send_recorded(message: Message) -> None:
                if message["type"] == "http.response.start":
                    record_response(span, message["status"])
                await send(message)

            await self.app(scope, receive, send_recorded if span.is_recording() else send)
            record_route(span, method, find_route(scope))


def find_route(scope: Mapping[str, object]) -> str | None:
    """Return the template of the route that handled a request, or None if there is no such route.

    A path has the ids of sessions, so there are as many as requests; templates are few.
    """
    route = scope.get("route")
    return route.path if isinstance(route, APIRoute) else None
