"""The events of all sessions, of those that were opened in some way or have some name only."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.services.gateway.gateway_service import MemoryBackend, RunningGateway, start_service
from tests.services.gateway.streaming.sse_client import open_stream


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def stand(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    """A gateway with three sessions of two blueprints."""
    folder: Path = tmp_path_factory.mktemp("filters")
    async with start_service(MemoryBackend(), "filtered", folder) as running:
        await running.open_session(session="desk-1")
        await running.open_session(session="desk-2", attributes={"desk": "d-2"})
        await running.open_session("assistant", session="other")
        await running.submit_and_answer("desk-2", "Who was it?", "Ann.")
        yield running


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def read_page(stand: RunningGateway, path: str) -> dict[str, Any]:
    answer = await stand.http.get(path)
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("session=desk-*", {"desk-1", "desk-2"}),
        ("session=desk-1", {"desk-1"}),
        ("session=desk", set[str]()),
        ("blueprint=clerk", {"desk-1", "desk-2"}),
        ("blueprint=assistant", {"other"}),
        ("attribute.desk=d-2", {"desk-2"}),
        ("attribute[desk]=d-1&session=d*", {"desk-1"}),
        ("blueprint=assistant&attribute.desk=d-1", set[str]()),
    ],
)
async def test_events_of_selected_sessions_are_read_in_every_form(
    stand: RunningGateway, query: str, expected: set[str]
) -> None:
    path = f"/v1/events?types=session-opened&{query}"
    page = await read_page(stand, path)
    assert {each["subject"] for each in page["events"]} == expected
    lines = await stand.http.get(path, headers={"Accept": "application/x-ndjson"})
    assert {json.loads(line)["subject"] for line in lines.text.splitlines()} == expected
    port = httpx.URL(stand.address).port
    assert port
    received = set[str]()
    async with open_stream(port, path) as answer:
        assert answer.status == 200
        events = answer.iterate_events()
        while received != expected:
            received.add((await anext(events)).json["subject"])


async def test_cursor_is_the_same_whatever_is_selected(stand: RunningGateway) -> None:
    everything = (await read_page(stand, "/v1/events?limit=1000"))["events"]
    first = await read_page(stand, "/v1/events?session=desk-2&limit=1")
    rest = await read_page(stand, f"/v1/events?session=desk-2&after={first['after']}")
    mine = [each for each in everything if each["subject"] == "desk-2"]
    assert [*first["events"], *rest["events"]] == mine
    unfiltered = await read_page(stand, f"/v1/events?after={first['after']}&limit=1000")
    assert unfiltered["events"] == everything[everything.index(mine[0]) + 1 :]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("blueprnt=clerk", "blueprnt"),
        ("session=*desk", "session"),
        ("attribute.desk=d-1&attribute[desk]=d-2", "attribute[desk]"),
    ],
)
async def test_filter_that_would_select_too_much_is_refused(
    stand: RunningGateway, query: str, field: str
) -> None:
    answer = await stand.http.get(f"/v1/events?{query}")
    assert (answer.status_code, answer.json()["field"]) == (422, field)
