"""How the HTTP server treats the connections of its clients."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest
from starlette.responses import PlainTextResponse

from turnlog.services.platform.asgi_server import serve_asgi

CLIENTS_KEEP = 5.0
"""Seconds that httpx keeps an idle connection: a server that closes first breaks requests."""


@pytest.mark.slow("a connection stays idle for longer than clients keep theirs")
async def test_idle_connection_is_still_served_when_clients_have_closed_theirs() -> None:
    answer = PlainTextResponse("here")
    served = serve_asgi(answer, "127.0.0.1:0", field="http", grace=1.0, on_stopping=lambda: None)
    async with served as address:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(address).port)
        await fetch(reader, writer)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(), CLIENTS_KEEP + 0.5)
        await fetch(reader, writer)
        writer.close()


async def fetch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
    assert (await reader.readuntil(b"here")).startswith(b"HTTP/1.1 200")
