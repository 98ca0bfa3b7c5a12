"""A client of NATS publishes a stray message or a forged event under a session's subjects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from nats.aio.client import Client
from structlog.testing import capture_logs

from tests.services.gateway.gateway_service import RunningGateway
from turnlog.events.jetstream.nats_connection import open_connection
from turnlog.services.cli.doctor.setup_checks import check_stopped_sessions

JUNK = {
    "not JSON": b"junk",
    "empty": b"",
    "huge": b"[" * 900_000,
    "of another version": b'{"specversion": "9.0", "type": "turnlog.turn-submitted.v9"}',
}


STREAM = {"Accept": "text/event-stream"}


@pytest.fixture
def log_url(nats_url: str) -> str:
    """Always a real server, since the log in memory has no clients."""
    return nats_url


@pytest_asyncio.fixture
async def stranger(nats_url: str) -> AsyncIterator[Client]:
    """A client of NATS that is no part of Turnlog."""
    async with open_connection(nats_url, name="stranger") as connection:
        yield connection.nc


async def publish_stray(
    stand: RunningGateway, stranger: Client, session: str, stray: bytes = b"junk"
) -> None:
    """Publish what is no event under a session's subjects."""
    ack = await stranger.jetstream().publish(f"session.{stand.tenant}.{session}.turn", stray)
    assert ack.stream == "SESSIONS"


async def spoil_session(stand: RunningGateway, stranger: Client, session: str) -> int:
    """Publish a session's last event once more; return the sequence of the real one."""
    last = await stand.backend.log.read_last_event(stand.tenant, session, leader=True)
    assert last is not None
    await publish_stray(stand, stranger, session, last.stored)
    return last.sequence


async def wait_for_stop(stand: RunningGateway, session: str) -> str:
    """Wait until the rows of a session are stopped, and return the reason in its list row."""
    while True:
        signal = stand.projection_signal.get_next_signal()
        page = await stand.fetch_json("/v1/sessions")
        for row in page["sessions"]:
            if row["session"] == session and row["stopped"]:
                return str(row["stopped"])
        await asyncio.wait_for(signal.wait(), 30)


async def wait_for_strays(stand: RunningGateway, session: str, count: int) -> None:
    """Wait until the list counts so many stray messages of a session."""
    while True:
        signal = stand.projection_signal.get_next_signal()
        page = await stand.fetch_json("/v1/sessions")
        for row in page["sessions"]:
            if row["session"] == session and row["stray_messages"] == count:
                assert row["stopped"] is None
                return
        await asyncio.wait_for(signal.wait(), 30)


@pytest.mark.promise("P13", "P22")
@pytest.mark.parametrize("name", JUNK)
async def test_stray_message_is_passed_over_and_reported_and_its_session_goes_on(
    stand: RunningGateway, stranger: Client, name: str
) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "File it", "Filed.")
    path = f"/v1/sessions/{session}"
    before = await stand.fetch_json(f"{path}/history")
    pages = await stand.fetch_json(f"{path}/events")
    await publish_stray(stand, stranger, session, JUNK[name])
    assert await stand.fetch_json(f"{path}/history") == before
    assert await stand.fetch_json(f"{path}/events") == pages
    assert (await stand.fetch_json(path))["unreadable"] is None
    for readable in ("window", "window?at=2", "calls", "turns/1/why", "verify", "export"):
        answer = await stand.http.get(f"{path}/{readable}")
        assert answer.status_code == 200, (readable, answer.text)
    answered = await stand.submit_and_answer(session, "And this?", "This too.")
    assert (answered["turn"], answered["reply"]) == (2, "This too.")
    await publish_stray(stand, stranger, session, JUNK[name])
    await wait_for_strays(stand, session, 2)
    found = (await stand.fetch_json(f"{path}/verify"))["findings"]
    assert [each["check"] for each in found] == ["log", "log"]
    assert "is no event" in found[0]["detail"]
    (strays,) = (await stand.fetch_json("/v1/quarantine"))["strays"]
    assert (strays["session"], strays["count"]) == (session, 2)
    assert "it is no event" in strays["reason"]
    part = (await stand.fetch_json("/readyz"))["parts"]["sessions"]
    assert part["detail"].startswith(f"sessions: 1 with stray messages: {session};")
    assert (await stand.fetch_json("/readyz"))["ready"]


@pytest.mark.promise("P13")
async def test_streams_go_on_behind_a_stray_message(
    stand: RunningGateway, stranger: Client
) -> None:
    session = await stand.open_session()
    await publish_stray(stand, stranger, session)
    await stand.submit_and_answer(session, "File it", "Filed.")
    whole = await stand.fetch_json("/v1/events")
    assert len(whole["unreadable"]) == 1
    for path in (f"/v1/sessions/{session}/events", "/v1/events"):
        names: list[str] = []
        async with stand.http.stream("GET", path, headers=STREAM) as answer:
            async for line in answer.aiter_lines():
                names += [line.removeprefix("event: ")] if line.startswith("event: ") else []
                if names[-1:] == ["turn-completed"]:
                    break
        assert "unreadable" not in names
        assert names[0] == "session-opened"


async def test_turn_that_runs_meanwhile_is_completed_behind_a_stray_message(
    stand: RunningGateway, stranger: Client
) -> None:
    session, going_on = await stand.open_session(), asyncio.Event()
    begun = asyncio.Event()
    stand.model.scripts.append([begun.set, "One moment.", going_on])
    waiting = asyncio.create_task(
        stand.http.post(f"/v1/sessions/{session}/turns?wait=30", json={"text": "Hi"})
    )
    await asyncio.wait_for(begun.wait(), 30)
    await publish_stray(stand, stranger, session)
    going_on.set()
    assert (await waiting).json()["reply"] == "One moment."


@pytest.mark.promise("P13")
async def test_turn_of_an_unreadable_session_is_refused_and_goes_on_in_a_fork(
    stand: RunningGateway, stranger: Client
) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "File it", "Filed.")
    sequence = await spoil_session(stand, stranger, session)
    for path, body in (
        ("turns", {"text": "And this?"}),
        ("close", {}),
        ("turns?wait=5", {"text": "?"}),
    ):
        refused = await stand.http.post(f"/v1/sessions/{session}/{path}", json=body)
        problem = refused.json()
        assert (refused.status_code, problem["code"]) == (409, "session-unreadable"), problem
        assert problem["sequence"] == sequence
        assert f"fork the session at event {sequence}" in problem["fix"]
    fork = await stand.http.post(f"/v1/sessions/{session}/fork", json={"at": sequence})
    assert fork.status_code == 201, fork.text
    answered = await stand.submit_and_answer(fork.json()["session"], "And this?", "This too.")
    assert (answered["turn"], answered["reply"]) == (2, "This too.")


async def test_event_stream_of_an_unreadable_session_ends_with_one_unreadable_event(
    stand: RunningGateway, stranger: Client
) -> None:
    session = await stand.open_session()
    sequence = await spoil_session(stand, stranger, session)
    for after in (0, sequence):
        names = await read_stream_names(stand.http, f"/v1/sessions/{session}/events?after={after}")
        assert names == [*["session-opened"][after:], "unreadable"]


async def read_stream_names(http: httpx.AsyncClient, path: str) -> list[str]:
    """Return the names of a stream's events, up to its end."""
    async with asyncio.timeout(30), http.stream("GET", path, headers=STREAM) as answer:
        lines = [line async for line in answer.aiter_lines()]
    return [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]


async def test_stopped_session_is_named_by_list_readiness_quarantine_and_doctor(
    stand: RunningGateway, stranger: Client
) -> None:
    whole, session = await stand.open_session(), await stand.open_session()
    await spoil_session(stand, stranger, session)
    reason = await wait_for_stop(stand, session)
    rows = (await stand.fetch_json("/v1/sessions"))["sessions"]
    assert {row["session"]: row["stopped"] for row in rows} == {whole: None, session: reason}
    readiness = await stand.fetch_json("/readyz")
    assert readiness["ready"]
    assert readiness["parts"]["sessions"]["ready"] is False
    assert readiness["parts"]["sessions"]["detail"].startswith(f"sessions: 1 stopped: {session};")
    (stopped,) = (await stand.fetch_json("/v1/quarantine"))["sessions"]
    assert stopped["session"] == session
    url = stand.store.engine.url.render_as_string(hide_password=False)
    finding = await check_stopped_sessions(url, stand.tenant)
    assert (finding.verdict, session in finding.said) == ("wary", True)
    assert "fork" in finding.fix


async def test_turn_that_runs_meanwhile_ends_for_its_client_and_for_the_worker(
    stand: RunningGateway, stranger: Client
) -> None:
    session, going_on = await stand.open_session(), asyncio.Event()
    begun = asyncio.Event()
    stand.model.scripts.append([begun.set, "One moment.", going_on])
    with capture_logs() as log_lines:
        waiting = asyncio.create_task(
            stand.http.post(f"/v1/sessions/{session}/turns?wait=30", json={"text": "Hi"})
        )
        await asyncio.wait_for(begun.wait(), 30)
        await spoil_session(stand, stranger, session)
        answer = await waiting
        assert (answer.status_code, answer.json()["code"]) == (409, "session-unreadable")
        message = await asyncio.wait_for(stand.handled.get(), 30)
    assert stand.model.closed_count == 1, "what can be recorded no more is not paid for"
    assert message.said == ["ack"]
    logged = [line["event"] for line in log_lines]
    assert (logged.count("turn-stopped"), "turn-failed-unexpectedly" in logged) == (1, False)
    good = await stand.open_session()
    assert (await stand.submit_and_answer(good, "Hi", "Hello."))["reply"] == "Hello."
