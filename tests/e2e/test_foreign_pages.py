"""Pages of other origins in a real browser: they neither change sessions nor read them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from tests.e2e.browser import CHROMIUM, Browser
from tests.services.gateway.gateway_service import RunningGateway

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(CHROMIUM is None, reason="no `chromium` on PATH"),
    pytest.mark.slow("it drives a browser on a service of its own"),
]

BLANK_PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n"
    b"Connection: close\r\n\r\n<!doctype html>"
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def foreign_port() -> AsyncIterator[int]:
    """The port of a server that answers everything with a blank page."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(BLANK_PAGE)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


def build_form_script(url: str) -> str:
    """Build an expression that posts a form without fields into a frame, and waits for it."""
    return f"""new Promise((done) => {{
        const frame = document.createElement("iframe");
        frame.name = "answer";
        const form = document.createElement("form");
        Object.assign(form, {{action: {json.dumps(url)}, method: "post", target: "answer"}});
        document.documentElement.append(frame, form);
        frame.onload = () => done(true);
        form.submit();
    }})"""


@pytest.mark.parametrize("site", ["attacker.example", "127.0.0.1"])
async def test_page_of_another_origin_cannot_close_a_session(
    stand: RunningGateway, chromium: Browser, foreign_port: int, site: str
) -> None:
    session = await stand.open_session("assistant")
    before = await stand.count_stored_events()
    await chromium.open_page(f"http://{site}:{foreign_port}/")
    await chromium.wait_for(f"location.host === '{site}:{foreign_port}' && document.doctype")
    for command in ("close", "purge"):
        url = f"{stand.address}/v1/sessions/{session}/{command}"
        sent = f"fetch('{url}', {{method: 'POST', mode: 'no-cors'}}).then((it) => it.type)"
        assert await chromium.run_script(sent) == "opaque"
    await chromium.run_script(build_form_script(f"{stand.address}/v1/sessions/{session}/close"))
    assert await stand.count_stored_events() == before


async def test_host_name_rebound_to_the_gateway_can_neither_read_nor_change_sessions(
    stand: RunningGateway, chromium: Browser
) -> None:
    session = await stand.open_session("assistant")
    before = await stand.count_stored_events()
    host = f"rebound.example:{urlsplit(stand.address).port}"
    await chromium.open_page(f"http://{host}/")
    await chromium.wait_for(f"location.host === '{host}' && document.body?.innerText")
    assert "TURNLOG_HOSTS" in await chromium.run_script("document.body.innerText")
    for path, method in (
        ("/v1/sessions", "GET"),
        (f"/v1/sessions/{session}/history", "GET"),
        (f"/v1/sessions/{session}/close", "POST"),
    ):
        sent = f"fetch('{path}', {{method: '{method}'}}).then((it) => it.json())"
        problem = await chromium.run_script(sent)
        assert (problem["status"], problem["code"]) == (421, "unknown-host")
    assert await stand.count_stored_events() == before


async def test_page_of_the_gateway_may_send_commands(
    stand: RunningGateway, chromium: Browser
) -> None:
    session = await stand.open_session("assistant")
    own = stand.address.replace("127.0.0.1", "localhost")
    await chromium.open_page(own)
    await chromium.wait_for(f"location.origin === '{own}' && document.doctype")
    sent = f"fetch('/v1/sessions/{session}/close', {{method: 'POST'}}).then((it) => it.status)"
    assert await chromium.run_script(sent) == 200
