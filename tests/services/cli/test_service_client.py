"""Answers of a service that come line by line, from a server that sends them in any pieces."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable

import httpx
import pytest

from tests.support.processes.service_connection import connect_service
from turnlog.client import ClientOperation
from turnlog.client.sse_events import SseMessage
from turnlog.contract.override_payloads import OverrideRemovalResult
from turnlog.events.errors import Refused, Unavailable
from turnlog.services.cli.client.service_client import ServiceClient

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


READ = ClientOperation("GET", "/v1/anything", object)


def build_service(answer: Callable[[httpx.Request], httpx.Response]) -> ServiceClient:
    transport = httpx.MockTransport(answer)
    return connect_service(httpx.AsyncClient(base_url="http://service", transport=transport))


def stream_response_lines(response: httpx.Response) -> AsyncGenerator[str]:
    return build_service(lambda _: response).stream_lines(READ)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_only_a_line_feed_ends_a_line(size: int) -> None:
    body = f"{TEXT}\n\nsecond\r\nlast".encode()
    lines = stream_response_lines(httpx.Response(200, stream=BodyInPieces(body, size)))
    assert [line async for line in lines] == [TEXT, "", "second", "last"]


@pytest.mark.parametrize("size", [1, 1000])
async def test_a_text_with_other_line_breaks_is_one_frame(size: int) -> None:
    body = f"retry: 1000\n\n: alive\n\nid: 1.1.2\nevent: token\ndata: {TEXT}\n\n".encode()
    response = httpx.Response(200, stream=BodyInPieces(body, size))
    messages = build_service(lambda _: response).stream_messages(READ)
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

    service, detail = build_service(refuse), r"http://service does not answer \(ConnectError\)"
    with pytest.raises(Unavailable, match=detail):
        await service.send(READ)
    with pytest.raises(Unavailable, match=detail):
        async with service.open_response(READ):
            pass


async def test_refused_request_is_not_sent_again() -> None:
    sent: list[httpx.Request] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        body = {"code": "unavailable", "detail": "no leader"}
        return httpx.Response(503, json=body, headers={"Retry-After": "2"})

    with pytest.raises(Unavailable, match="no leader") as refusal:
        await build_service(refuse).send(READ)
    assert (len(sent), refusal.value.retry_after) == (1, 2.0)


async def test_answer_with_a_field_of_a_later_release_is_named() -> None:
    service = build_service(lambda _: httpx.Response(200, json={"sequence": 1, "later": 2}))
    operation = ClientOperation("DELETE", "/v1/overrides/a/b/c", OverrideRemovalResult)
    with pytest.raises(Refused, match="at later") as refusal:
        await service.send(operation)
    assert refusal.value.code == "other-release"
