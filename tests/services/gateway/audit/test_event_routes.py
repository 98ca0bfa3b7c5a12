"""Events of one session and of all sessions, as pages and as lines."""

from __future__ import annotations

import json
from hashlib import sha256

import httpx
import pytest

from tests.services.gateway.gateway_service import RunningGateway
from tests.support.processes.service_connection import connect_service
from turnlog.events.errors import Corrupt
from turnlog.events.registry import EVENT_NAMES
from turnlog.events.store.memory_log import MemoryLog
from turnlog.services.cli.client.event_reads import EventQuery, read_events

LINES = {"Accept": "application/x-ndjson"}


async def run_session(stand: RunningGateway) -> str:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "File it", "Filed.")
    return session


def list_event_names(events: list[dict[str, str]]) -> list[str]:
    return [event["type"].removeprefix("turnlog.").removesuffix(".v1") for event in events]


async def test_event_page_returns_the_position_of_the_next_page(stand: RunningGateway) -> None:
    session = await run_session(stand)
    all_events = await stand.fetch_json(f"/v1/sessions/{session}/events")
    assert [event["sequence"] for event in all_events["events"]] == list(
        range(1, all_events["sequence"] + 1)
    )
    assert (all_events["more"], all_events["after"]) == (False, all_events["sequence"])
    after, pieces = 0, []
    while True:
        page = await stand.fetch_json(f"/v1/sessions/{session}/events", after=after, limit=3)
        pieces += page["events"]
        after = page["after"]
        if not page["more"]:
            break
    assert pieces == all_events["events"]
    rest = await stand.fetch_json(f"/v1/sessions/{session}/events", after=after)
    assert (rest["events"], rest["after"], rest["more"]) == ([], after, False)


async def test_events_are_filtered_by_name(stand: RunningGateway) -> None:
    session = await run_session(stand)
    types = "turn-completed, turn-submitted"
    page = await stand.fetch_json(f"/v1/sessions/{session}/events", types=types)
    assert list_event_names(page["events"]) == ["turn-submitted", "turn-completed"]
    first = await stand.fetch_json(f"/v1/sessions/{session}/events", types=types, limit=1)
    assert first["more"] is True
    rest = await stand.fetch_json(
        f"/v1/sessions/{session}/events", types=types, after=first["after"]
    )
    assert list_event_names(rest["events"]) == ["turn-completed"]
    early = await stand.fetch_json(f"/v1/sessions/{session}/events", types="turn-submitted")
    assert early["after"] == early["sequence"] > early["events"][-1]["sequence"]
    path = f"/v1/sessions/{session}/events?types=turn-submitted"
    assert await stand.fetch_json(path) == await stand.fetch_json(path, after=0) == early


async def test_events_can_be_filtered_by_every_event_name(stand: RunningGateway) -> None:
    session = await stand.open_session()
    page = await stand.fetch_json(f"/v1/sessions/{session}/events", types=",".join(EVENT_NAMES))
    assert list_event_names(page["events"]) == ["session-opened"]


async def test_ndjson_lines_of_a_session_form_a_hash_chain(stand: RunningGateway) -> None:
    session = await run_session(stand)
    answer = await stand.http.get(f"/v1/sessions/{session}/events", headers=LINES)
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    lines = answer.content.splitlines()
    events = [json.loads(line) for line in lines]
    digests = [f"sha256:{sha256(line).hexdigest()}" for line in lines]
    assert [event.get("prevhash") for event in events] == [None, *digests[:-1]]
    assert answer.headers["ETag"] == f'"{len(lines)}"'
    some = await stand.http.get(f"/v1/sessions/{session}/events?after=2&limit=2", headers=LINES)
    assert some.content.splitlines() == lines[2:4]


async def test_events_of_all_sessions_are_returned_in_log_order(stand: RunningGateway) -> None:
    one, other = await stand.open_session(), await stand.open_session()
    await stand.submit_and_answer(one, "Hi", "Hello.")
    await stand.submit_and_answer(other, "Hi", "Hello.")
    after, events = 0, []
    while True:
        page = await stand.fetch_json("/v1/events", after=after, limit=4)
        assert page["unreadable"] == []
        assert len(page["events"]) <= 4
        events += page["events"]
        after = page["after"]
        if not page["more"]:
            break
    assert {event["subject"] for event in events} == {one, other}
    for session in (one, other):
        sequences = [event["sequence"] for event in events if event["subject"] == session]
        assert sequences == list(range(1, len(sequences) + 1))
    rest = await stand.fetch_json("/v1/events", after=after)
    assert (rest["events"], rest["after"], rest["more"]) == ([], after, False)
    lines = (await stand.http.get("/v1/events", headers=LINES)).content.splitlines()
    assert [json.loads(line) for line in lines] == events
    two = await stand.http.get("/v1/events?types=turn-completed&limit=2", headers=LINES)
    assert list_event_names([json.loads(line) for line in two.content.splitlines()]) == [
        "turn-completed",
        "turn-completed",
    ]


async def test_session_events_and_all_events_can_be_streamed(stand: RunningGateway) -> None:
    session = await stand.open_session()
    for path in (f"/v1/sessions/{session}/events", "/v1/events"):
        stream = {"Accept": "text/event-stream"}
        async with stand.http.stream("GET", path, headers=stream) as answer:
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            assert await read_event_name(answer) == "event: session-opened"


async def test_event_reads_end_with_an_error_at_a_lost_event(stand: RunningGateway) -> None:
    session = await run_session(stand)
    head = (await stand.fetch_json(f"/v1/sessions/{session}"))["sequence"]
    await stand.fetch_json(f"/v1/sessions/{session}/calls", min_sequence=head)
    log = stand.backend.log
    if not isinstance(log, MemoryLog):
        return  # No event of a real log can be lost from here
    lost = log.stored[3]
    log.drop_event(4)
    hole = "stream SESSIONS: sequence 4 is missing, damaged or deleted"
    page = await stand.fetch_json("/v1/events")
    assert (len(page["events"]), page["after"], page["more"]) == (3, 3, True)
    answer = await stand.http.get("/v1/events", params={"after": 3})
    assert (answer.status_code, answer.json()["code"]) == (500, "corrupt")
    assert hole in answer.json()["detail"]
    assert (await stand.fetch_json("/v1/events", after=4))["more"] is False
    *events, last = (await stand.http.get("/v1/events", headers=LINES)).content.splitlines()
    assert len(events) == 3
    assert hole in json.loads(last)["detail"]
    service = connect_service(stand.http)
    with pytest.raises(Corrupt, match=hole):
        _ = [event async for event in read_events(service, EventQuery())]
    stream = await stand.http.get("/v1/events", headers={"Accept": "text/event-stream"})
    assert "id: 3\nevent: unreadable\ndata: " in stream.text
    assert hole.removeprefix("stream SESSIONS: ") in stream.text
    log.stored[3] = lost


async def read_event_name(answer: httpx.Response) -> str:
    async for line in answer.aiter_lines():
        if line.startswith("event:"):
            return line
    raise AssertionError("the stream ended")


REFUSED = [
    ("types=turn-submited", "unknown-type", "types", "write `turn-submitted`"),
    ("types=", "unknown-type", "types", None),
    ("types=turnlog.turn-submitted.v1", "unknown-type", "types", None),
    ("after=-1", "invalid", "after", None),
    ("after=x", "invalid", "after", None),
    ("after=99999999999999999999", "invalid", "after", None),
    ("limit=0", "invalid", "limit", None),
    ("limit=1001", "invalid", "limit", None),
    ("befor=1", "invalid", "befor", None),
]


async def test_event_filter_that_cannot_match_is_refused(idle: RunningGateway) -> None:
    session = await idle.open_session()
    for path in (f"/v1/sessions/{session}/events", "/v1/events"):
        for query, code, field, fix in REFUSED:
            answer = await idle.http.get(f"{path}?{query}")
            problem = answer.json()
            assert (answer.status_code, problem["code"], problem["field"]) == (422, code, field), (
                query
            )
            assert fix is None or problem["fix"] == fix


async def test_parameter_that_there_is_not_is_refused_with_those_there_are(
    idle: RunningGateway,
) -> None:
    session = await idle.open_session()
    for path, known in (
        (f"/v1/sessions/{session}/events", "after, limit, stored, tokens, types"),
        (
            "/v1/events",
            "after, attribute.NAME, blueprint, limit, session, stored, tokens, types",
        ),
    ):
        answer = await idle.http.get(f"{path}?befor=1")
        assert answer.json()["fix"] == f"use one of: {known}"


async def test_unsupported_response_format_is_refused_with_406(idle: RunningGateway) -> None:
    session = await idle.open_session()
    for path in (f"/v1/sessions/{session}/events", "/v1/events"):
        answer = await idle.http.get(path, headers={"Accept": "text/csv"})
        assert (answer.status_code, answer.json()["code"]) == (406, "not-acceptable")


async def test_response_format_follows_the_accept_header(idle: RunningGateway) -> None:
    session = await idle.open_session()
    for accept, form in {
        "*/*": "application/json",
        "application/*": "application/json",
        "text/html, */*;q=0.1": "application/json",
        "application/json;q=0.5, application/x-ndjson": "application/x-ndjson",
        "application/x-ndjson;q=nonsense, */*": "application/json",
    }.items():
        url = f"/v1/sessions/{session}/events"
        answer = await idle.http.get(url, headers={"Accept": accept})
        assert answer.headers["Content-Type"] == form, accept
