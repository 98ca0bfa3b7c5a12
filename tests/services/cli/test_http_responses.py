"""Answers of a service that come line by line, from a server that sends them in any pieces."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

import httpx
import pytest

from turnlog.client.sse_events import SseMessage
from turnlog.events.errors import Refused, Unavailable
from turnlog.services.cli.client.http_responses import (
    open_response,
    send_request,
    stream_lines,
    stream_messages,
)

TEXT = "one\u2028two\x85three\x0cfour"
"""Line breaks for Python, but within a line for JSON, NDJSON and SSE."""


class BodyInPieces(httpx.AsyncByteStream):
    def __init__(self, body: bytes, size: int, *, breaks_off: bool = False) -> None:
        self.pieces = [body[at : at + size] for at in range(0, len(body), size)]
        self.breaks_off = breaks_off

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        if self.breaks_off:
            raise httpx.ReadError("gone")


def build_client(response: httpx.Response) -> httpx.AsyncClient:
    transport = httpx.MockTransport(lambda _: response)
    return httpx.AsyncClient(base_url="http://service", transport=transport)


def stream_response_lines(response: httpx.Response) -> AsyncGenerator[str]:
    client = build_client(response)
    return stream_lines(client, client.build_request("GET", "/lines"))


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_only_a_line_feed_ends_a_line(size: int) -> None:
    body = f"{TEXT}\n\nsecond\r\nlast".encode()
    lines = stream_response_lines(httpx.Response(200, stream=BodyInPieces(body, size)))
    assert [line async for line in lines] == [TEXT, "", "second", "last"]


@pytest.mark.parametrize("size", [1, 1000])
async def test_a_text_with_other_line_breaks_is_one_frame(size: int) -> None:
    body = f"retry: 1000\n\n: alive\n\nid: 1.1.2\nevent: token\ndata: {TEXT}\n\n".encode()
    client = build_client(httpx.Response(200, stream=BodyInPieces(body, size)))
    messages = stream_messages(client, client.build_request("GET", "/messages"))
    assert [message async for message in messages] == [SseMessage("token", TEXT, "1.1.2")]


async def test_error_described_by_a_streamed_response_is_raised() -> None:
    body = b'{"code": "unknown-session", "detail": "there is no such session", "field": "session"}'
    lines = stream_response_lines(httpx.Response(404, stream=BodyInPieces(body, 10)))
    with pytest.raises(Refused, match="unknown-session") as refusal:
        await anext(lines)
    assert refusal.value.field == "session"


async def test_broken_stream_yields_its_complete_lines_and_then_raises_unavailable() -> None:
    stream = BodyInPieces(b"whole\nhalf", 100, breaks_off=True)
    lines = stream_response_lines(httpx.Response(200, stream=stream))
    assert await anext(lines) == "whole"
    with pytest.raises(Unavailable, match="http://service"):
        await anext(lines)


async def test_unreachable_service_raises_unavailable() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    client = httpx.AsyncClient(base_url="http://service", transport=httpx.MockTransport(refuse))
    request = client.build_request("GET", "/")
    with pytest.raises(Unavailable, match="does not answer"):
        await send_request(client, request)
    with pytest.raises(Unavailable, match="does not answer"):
        async with open_response(client, request):
            pass
