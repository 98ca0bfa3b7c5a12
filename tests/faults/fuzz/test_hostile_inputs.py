"""Hostile inputs at every parser: none holds an event loop for longer than the promise.

The list is that of docs/faults.md. An input that a module of its own attacks is not repeated here.
The suite counts work, since times depend on the machine: a step of an input suspends its task, or
runs beside the loop. With FAULTS=all the loop is measured too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import httpx
import pytest
import pytest_asyncio

from tests.faults.loop_holds import check_loop_holds
from tests.services.gateway.gateway_service import MemoryBackend, RunningGateway, start_service
from turnlog.projections.blueprint.linear_patterns import find_pattern_fault
from turnlog.services.extensions.bounded_json_post import MAX_PIECES, post_json
from turnlog.services.http.request_checks import MAX_PARAMETERS

ROOT: Final = Path(__file__).parents[3]

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow("inputs are large on purpose")]

OK: Final = b"HTTP/1.1 200 OK\r\n"

CHUNKED: Final = OK + b"Transfer-Encoding: chunked\r\n\r\n"

ENDPOINT_ANSWERS: Final[Mapping[str, bytes]] = {
    "informational answers": b"HTTP/1.1 100 Continue\r\n\r\n" * 100_000
    + OK
    + b"Content-Length: 2\r\n\r\n{}",
    "chunks of one byte": CHUNKED + b"1\r\nx\r\n" * 50_000 + b"0\r\n\r\n",
    "too many chunks": CHUNKED + b"1\r\nx\r\n" * (MAX_PIECES + 100),
    "thousands of headers": OK + b"a: b\r\n" * 12_000 + b"Content-Length: 2\r\n\r\n{}",
}


@asynccontextmanager
async def run_raw_server(answer: bytes) -> AsyncGenerator[str]:
    """Run a server that gives the same bytes to each request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            for start in range(0, len(answer), 65_536):
                writer.write(answer[start : start + 65_536])
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


@pytest.mark.promise("P21")
@pytest.mark.parametrize("name", ENDPOINT_ANSWERS)
async def test_answer_of_an_endpoint_in_many_pieces_holds_no_loop(name: str) -> None:
    async with run_raw_server(ENDPOINT_ANSWERS[name]) as url:
        async with check_loop_holds(name):
            if name == "too many chunks":
                with pytest.raises(httpx.RemoteProtocolError, match="too many pieces"):
                    await post_json(url, {}, 8_000_000)
                return
            answered = await post_json(url, {}, 8_000_000)
        assert (answered.status, answered.is_whole) == (200, True)


async def test_other_tasks_run_between_the_pieces_of_an_answer() -> None:
    turns, is_over = 0, False

    async def count_turns() -> None:
        nonlocal turns
        while not is_over:
            turns += 1
            await asyncio.sleep(0)

    async with run_raw_server(ENDPOINT_ANSWERS["chunks of one byte"]) as url:
        counting = asyncio.create_task(count_turns())
        await post_json(url, {}, 8_000_000)
        is_over = True
        await counting
    assert turns > 50_000 // 64


@pytest_asyncio.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    async with start_service(MemoryBackend(), "hostile", tmp_path, working=False) as running:
        yield running


REQUESTS: Final[Mapping[str, tuple[str, str, int]]] = {
    "repeated parameters": ("POST", "/v1/sessions/s/turns?" + "&".join(["wait=1"] * 2_000), 422),
    "other parameters": ("GET", "/v1/sessions?" + "&".join(f"a{n}=1" for n in range(4_000)), 422),
    "separators": ("GET", "/v1/sessions?" + "&" * 20_000, 422),
    "a long parameter": ("GET", "/v1/sessions?q=" + "x" * 30_000, 422),
}


@pytest.mark.promise("P21")
@pytest.mark.parametrize("name", REQUESTS)
async def test_query_of_a_stranger_is_refused_and_holds_no_loop(
    gateway: RunningGateway, name: str
) -> None:
    method, path, status = REQUESTS[name]
    async with check_loop_holds(name):
        answer = await gateway.http.request(method, path)
    assert answer.status_code == status, answer.text
    if name != "a long parameter":
        assert answer.json()["field"] == "query"
        assert str(MAX_PARAMETERS) in answer.json()["detail"]


def test_every_test_that_the_list_of_hostile_inputs_names_exists() -> None:
    page = (ROOT / "docs/faults.md").read_text().partition("## Hostile inputs")[2]
    rows = [line for line in page.partition("\n## ")[0].splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    for row in rows:
        named = re.findall(r"`(tests/[^`]+)`", row)
        assert named, row
        assert [name for name in named if not (ROOT / name).is_file()] == []


def test_patterns_of_strangers_are_bounded_before_they_run() -> None:
    for pattern in ("a{" + "9" * 4_400 + "}", "((a{99}){99}){99}", "(" * 5_000):
        assert find_pattern_fault(pattern) is not None
