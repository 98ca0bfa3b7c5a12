"""Clients go on with an upload whose connection broke, as far as the service has its bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.services.gateway.gateway_service import RunningGateway
from tests.services.gateway.test_blobs import break_off_upload
from tests.services.media.media_samples import make_png
from turnlog.client import AsyncTurnlogClient, TurnlogClient
from turnlog.client.request_errors import ServiceUnavailable
from turnlog.events.content import compute_digest
from turnlog.services.cli.client.attached_files import upload_files
from turnlog.services.cli.client.service_client import ServiceClient

SIZE = 600_000

BROKEN_AT = 400_000


@dataclass
class NotedTransport(httpx.AsyncBaseTransport):
    """Notes the requests of a client; `first` stands in for the first of a method."""

    first: dict[str, Callable[[], Awaitable[httpx.Response]]] = field(
        default_factory=dict[str, Callable[[], Awaitable[httpx.Response]]]
    )
    sent: list[tuple[str, str | None, str | None]] = field(
        default_factory=list[tuple[str, str | None, str | None]]
    )
    """Method, offset and length of each."""
    inner: httpx.AsyncHTTPTransport = field(default_factory=httpx.AsyncHTTPTransport)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        headers = request.headers
        length = headers.get("Content-Length")
        self.sent.append((request.method, headers.get("Upload-Offset"), length))
        if stand_in := self.first.pop(request.method, None):
            return await stand_in()
        return await self.inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self.inner.aclose()


def open_client(
    idle: RunningGateway, transport: NotedTransport, tries: int = 8
) -> AsyncTurnlogClient:
    http = httpx.AsyncClient(transport=transport, timeout=60)
    return AsyncTurnlogClient(idle.address, http=http, max_tries=tries)


async def test_upload_that_breaks_off_goes_on_where_it_was(idle: RunningGateway) -> None:
    data, offsets = make_png(SIZE), list[str]()

    async def break_off() -> httpx.Response:
        offsets.append(await break_off_upload(idle, data, BROKEN_AT))
        raise httpx.WriteError("the connection broke")

    transport = NotedTransport({"POST": break_off})
    async with open_client(idle, transport) as client:
        stored = await client.upload_blob(data, "image/png")
        assert await client.fetch_blob(stored.digest) == data
    (offset,) = offsets
    assert transport.sent[:4] == [
        ("HEAD", None, None),
        ("POST", None, str(SIZE)),
        ("HEAD", None, None),
        ("POST", offset, str(SIZE - int(offset))),
    ]


async def test_file_that_a_command_attaches_goes_on_where_it_was(
    idle: RunningGateway, tmp_path: Path
) -> None:
    data, offsets = make_png(SIZE + 4), list[str]()
    file = tmp_path / "heron.png"
    await asyncio.to_thread(file.write_bytes, data)

    async def break_off() -> httpx.Response:
        offsets.append(await break_off_upload(idle, data, BROKEN_AT))
        raise httpx.WriteError("the connection broke")

    transport = NotedTransport({"POST": break_off})
    async with ServiceClient(open_client(idle, transport, tries=1)) as service:
        (part,) = await upload_files(service, [file])
    assert part == {"type": "image", "digest": compute_digest(data), "name": "heron.png"}
    (offset,) = offsets
    assert transport.sent[-1] == ("POST", offset, str(len(data) - int(offset)))


async def test_upload_that_another_client_began_is_completed_by_the_blocking_one(
    idle: RunningGateway,
) -> None:
    data = make_png(SIZE + 1)
    offset = await break_off_upload(idle, data, BROKEN_AT)
    sent = list[str | None]()

    def note(request: httpx.Request) -> None:
        sent.append(request.headers.get("Upload-Offset"))

    def upload() -> bytes:
        http = httpx.Client(event_hooks={"request": [note]}, timeout=60)
        with TurnlogClient(idle.address, http=http) as client:
            return client.fetch_blob(client.upload_blob(data).digest)

    assert await asyncio.to_thread(upload) == data
    assert sent == [None, offset, None]


async def test_whole_is_sent_where_another_gateway_has_the_beginning(idle: RunningGateway) -> None:
    data = make_png(SIZE + 2)

    async def answer_as_another_gateway() -> httpx.Response:
        return httpx.Response(404, headers={"Upload-Offset": "5"})

    transport = NotedTransport({"HEAD": answer_as_another_gateway})
    async with open_client(idle, transport) as client:
        stored = await client.upload_blob(data)
        assert await client.fetch_blob(stored.digest) == data
    posted = [each for each in transport.sent if each[0] == "POST"]
    assert posted == [("POST", "5", str(len(data) - 5)), ("POST", None, str(len(data)))]


@pytest.mark.parametrize("offset", ["600000", "-1", "many", "9999999999"])
async def test_offset_that_cannot_be_is_not_gone_on_from(idle: RunningGateway, offset: str) -> None:
    data = make_png(SIZE)

    async def answer_oddly() -> httpx.Response:
        return httpx.Response(404, headers={"Upload-Offset": offset})

    transport = NotedTransport({"HEAD": answer_oddly})
    async with open_client(idle, transport) as client:
        await client.upload_blob(data)
    assert transport.sent[1:] == [("POST", None, str(SIZE))]


async def test_client_that_sends_nothing_again_sends_no_upload_again(idle: RunningGateway) -> None:
    async def fail() -> httpx.Response:
        raise httpx.WriteError("the connection broke")

    transport = NotedTransport({"POST": fail})
    async with open_client(idle, transport, tries=1) as client:
        with pytest.raises(ServiceUnavailable, match="the connection broke"):
            await client.upload_blob(make_png(SIZE + 3))
    assert [each[0] for each in transport.sent] == ["HEAD", "POST"]
