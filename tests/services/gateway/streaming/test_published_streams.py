"""What a running gateway sends of events is what the reference of events describes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest_asyncio

from tests.services.gateway.gateway_service import MemoryBackend, RunningGateway, start_service
from tests.services.gateway.streaming.sse_client import ReceivedEvent, open_stream
from tests.support.sessions.published_schemas import (
    build_strict_validator,
    list_event_faults,
    list_schema_faults,
)

NDJSON = {"Accept": "application/x-ndjson"}


@pytest_asyncio.fixture
async def stand(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """A gateway, a projector and a worker on a log in memory."""
    async with start_service(MemoryBackend(), "published", tmp_path) as running:
        yield running


async def record_session(stand: RunningGateway) -> tuple[str, int]:
    """Record a session with a withheld reply, and return it with its last sequence."""
    session = await stand.open_session()
    await stand.submit_and_answer(session, "Who was it?", "It was Ann.")
    await stand.submit_and_answer(session, "Who else?", "Nobody.")
    form = {"turn": 1, "reason": "it names a person"}
    answer = await stand.http.post(f"/v1/sessions/{session}/redactions", json=form)
    assert answer.status_code == 200, answer.text
    return session, int(answer.json()["sequence"])


async def read_events(stand: RunningGateway, path: str, count: int) -> list[ReceivedEvent]:
    """Return the first events of a stream of stored events."""
    port = httpx.URL(stand.address).port
    assert port
    received: list[ReceivedEvent] = []
    async with open_stream(port, path) as answer:
        async for event in answer.iterate_events():
            received.append(event)
            if len(received) == count:
                return received
    raise AssertionError("a stream of stored events ends with its reader")


async def test_events_in_streams_pages_and_ndjson_match_the_published_schema(
    stand: RunningGateway,
) -> None:
    session, last = await record_session(stand)
    for path, page_name in (
        (f"/v1/sessions/{session}/events", "SessionEventPage"),
        ("/v1/events", "TenantEventPage"),
    ):
        page = await stand.fetch_json(path)
        assert [fault for each in page["events"] for fault in list_event_faults(each)] == []
        assert list_schema_faults(page_name, page | {"events": page["events"][:1]}) == []
        lines = (await stand.http.get(path, headers=NDJSON)).text.splitlines()
        assert [json.loads(line) for line in lines] == page["events"]
        frames = await read_events(stand, path, last)
        assert [frame.json for frame in frames] == page["events"]
        for frame in (*frames, *await read_events(stand, f"{path}?stored=true", last)):
            sent = {"id": frame.id, "event": frame.name, "data": frame.json}
            assert list_schema_faults("EventStreamEvent", sent) == []


async def test_redacted_event_matches_the_published_schema(stand: RunningGateway) -> None:
    session, _ = await record_session(stand)
    page = await stand.fetch_json(f"/v1/sessions/{session}/events")
    withheld = [each for each in page["events"] if "withheldby" in each]
    assert {each["type"] for each in withheld} >= {"turnlog.turn-completed.v1"}
    assert [fault for each in withheld for fault in list_event_faults(each)] == []


async def test_redact_of_a_turn_stream_matches_the_schema_from_every_position(
    stand: RunningGateway,
) -> None:
    session, _ = await record_session(stand)
    port = httpx.URL(stand.address).port
    assert port
    for cursor in ("", "1.0.0", "1.1.0", "1.1.11", "1.1.11.done"):
        path = f"/v1/sessions/{session}/turns/1/stream"
        # The client of these tests compares each event with the schema.
        async with open_stream(port, path, last_id=cursor or None) as answer:
            received = [event async for event in answer.iterate_events()]
        assert (received[-1].name, received[-1].json["replacement"]) == ("redact", "(Taken back.)")


def test_strict_validator_rejects_fields_and_events_missing_in_the_reference() -> None:
    unreadable = {"id": "7", "event": "unreadable", "data": {"subject": "s", "detail": "lost"}}
    assert build_strict_validator("EventStreamEvent").is_valid(unreadable)
    for changed in (
        unreadable | {"id": "1.1.0"},
        unreadable | {"event": "done"},
        unreadable | {"data": {"subject": "s"}},
        unreadable | {"data": {"subject": "s", "detail": "lost", "unheard": 1}},
    ):
        assert not build_strict_validator("EventStreamEvent").is_valid(changed)
