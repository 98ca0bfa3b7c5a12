"""Submitting turns: the answer, its time, and the effect of a second submit."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.services.gateway.gateway_service import MemoryBackend, RunningGateway, start_service
from tests.services.gateway.requests.raw_http import open_raw_connection
from turnlog.events.async_tasks import Watch
from turnlog.events.content import PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.events.store.memory_log import MemoryLog
from turnlog.services.worker.model.model_types import ModelFailure

MANY = 50


async def test_a_turn_is_accepted_once_it_is_on_the_log(idle: RunningGateway) -> None:
    session = await idle.open_session()
    form = {"text": "File it", "inputs": {"urgency": 3}, "references": {"order": "o-1"}}
    answer = await idle.http.post(f"/v1/sessions/{session}/turns", json=form)
    assert answer.status_code == 202
    assert answer.headers["ETag"] == '"2"'
    assert answer.json() == {
        "session": session,
        "turn": 1,
        "sequence": 2,
        "stream": f"/v1/sessions/{session}/turns/1/stream",
        "events": f"/v1/sessions/{session}/events?after=1",
    }
    last = await idle.backend.log.read_last_event(idle.tenant, session)
    assert last is not None
    assert last.event == TurnSubmitted(
        turn=1, text=PlainText(text="File it"), inputs={"urgency": 3}, references={"order": "o-1"}
    )


async def test_submit_with_wait_returns_the_reply(stand: RunningGateway) -> None:
    session = await stand.open_session()
    stand.model.scripts.append(["Filed ", "and done."])
    url = f"/v1/sessions/{session}/turns?wait=30"
    answer = await stand.http.post(url, json={"text": "File it"})
    assert answer.status_code == 200
    turn = answer.json()
    assert (turn["turn"], turn["status"], turn["reply"]) == (1, "completed", "Filed and done.")
    assert (turn["finish"], turn["redacted"], turn["reason"]) == ("stop", False, None)
    head = (await stand.fetch_json(f"/v1/sessions/{session}"))["sequence"]
    assert turn["settled"] == head
    assert answer.headers["ETag"] == f'"{head}"'


async def test_submit_with_wait_returns_a_failure(stand: RunningGateway) -> None:
    session = await stand.open_session()
    stand.model.scripts.append([ModelFailure("unauthorised", "HTTP 401")])
    url = f"/v1/sessions/{session}/turns?wait=30"
    turn = (await stand.http.post(url, json={"text": "File it"})).json()
    assert (turn["status"], turn["reply"], turn["reason"]) == ("failed", None, "unauthorised")


async def test_submit_with_wait_returns_202_after_its_timeout(idle: RunningGateway) -> None:
    session = await idle.open_session()
    answer = await idle.http.post(f"/v1/sessions/{session}/turns?wait=0.05", json={"text": "Hi"})
    assert answer.status_code == 202
    assert answer.json()["turn"] == 1


async def test_submit_with_wait_returns_202_when_the_gateway_stops(idle: RunningGateway) -> None:
    session = await idle.open_session()
    async with asyncio.TaskGroup() as tasks:
        async with idle.start_another_gateway() as ending:
            url = f"/v1/sessions/{session}/turns?wait=300"
            waiting = tasks.create_task(ending.http.post(url, json={"text": "Hi"}))
            async for event in idle.backend.log.watch_session(idle.tenant, session, 1):
                assert isinstance(event.event, TurnSubmitted)
                break
        answer = await waiting
    assert answer.status_code == 202


@dataclass(kw_only=True)
class WatchedLog(MemoryLog):
    """A log that signals when a watch begins and ends."""

    began: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def open_session_watch(
        self, tenant: str, session: str, after: int, wake: asyncio.Event
    ) -> AsyncGenerator[Watch[RecordedEvent]]:
        """See `EventLog.open_session_watch`."""
        self.began.set()
        try:
            async with super().open_session_watch(tenant, session, after, wake) as watch:
                yield watch
        finally:
            self.ended.set()


async def test_wait_ends_when_its_client_disconnects(fresh_tenant: str, tmp_path: Path) -> None:
    log = WatchedLog()
    async with start_service(
        MemoryBackend(log=log), fresh_tenant, tmp_path, working=False
    ) as stand:
        session = await stand.open_session()
        body = b'{"text":"Hi"}'
        async with open_raw_connection(stand.address) as line:
            headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
            await line.send_head("POST", f"/v1/sessions/{session}/turns?wait=300", headers)
            await line.send_bytes(body)
            await asyncio.wait_for(log.began.wait(), 30)
            assert not log.ended.is_set()
        await asyncio.wait_for(log.ended.wait(), 30)


async def test_submit_response_can_be_an_event_stream(stand: RunningGateway) -> None:
    session = await stand.open_session()
    stand.model.scripts.append(["Filed ", "and done."])
    url = f"/v1/sessions/{session}/turns"
    accept = {"Accept": "text/event-stream"}
    async with stand.http.stream("POST", url, json={"text": "Hi"}, headers=accept) as answer:
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        events = [line async for line in answer.aiter_lines() if line.startswith("event:")]
    assert events[-1] == "event: done"
    assert "event: token" in events


async def test_closed_session_refuses_turns(idle: RunningGateway) -> None:
    session = await idle.open_session()
    await idle.http.post(f"/v1/sessions/{session}/close")
    answer = await idle.http.post(f"/v1/sessions/{session}/turns", json={"text": "Hi"})
    assert answer.status_code == 409
    assert answer.json()["code"] == "session-closed"


async def submit_concurrently(stand: RunningGateway, session: str) -> Counter[int]:
    url = f"/v1/sessions/{session}/turns"
    async with asyncio.TaskGroup() as tasks:
        submits = [
            tasks.create_task(stand.http.post(url, json={"text": f"turn {number}"}))
            for number in range(MANY)
        ]
    return Counter(each.result().status_code for each in submits)


async def test_rejecting_session_accepts_one_of_fifty_concurrent_submits(
    idle: RunningGateway,
) -> None:
    session = await idle.open_session("rejecting")
    assert await submit_concurrently(idle, session) == {202: 1, 409: MANY - 1}
    session_view = await idle.fetch_json(f"/v1/sessions/{session}")
    assert (session_view["turns"], session_view["sequence"]) == (1, 2)


async def test_queueing_session_answers_fifty_concurrent_submits_in_order(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session()
    stand.model.scripts.extend([f"reply {number}"] for number in range(1, MANY + 1))
    assert await submit_concurrently(stand, session) == {202: MANY}
    last = await stand.submit_and_answer(session, "the last one", "That was all.")
    assert last["turn"] == MANY + 1
    turns = (await stand.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert [turn["status"] for turn in turns] == ["completed"] * (MANY + 1)
    assert len({turn["text"] for turn in turns}) == MANY + 1
    assert [turn["reply"] for turn in turns[:-1]] == [f"reply {n}" for n in range(1, MANY + 1)]


async def test_interrupting_session_keeps_the_last_of_fifty_concurrent_submits(
    idle: RunningGateway,
) -> None:
    session = await idle.open_session("interrupting")
    assert await submit_concurrently(idle, session) == {202: MANY}
    turns = (await idle.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert [turn["status"] for turn in turns] == ["cancelled"] * (MANY - 1) + ["open"]
    assert {turn["reason"] for turn in turns[:-1]} == {"interrupted"}


async def test_fifty_submits_over_two_gateways_get_consecutive_turn_numbers(
    idle: RunningGateway,
) -> None:
    session = await idle.open_session()
    url = f"/v1/sessions/{session}/turns"
    async with idle.start_another_gateway() as other, asyncio.TaskGroup() as tasks:
        submits = [
            tasks.create_task((idle, other)[number % 2].http.post(url, json={"text": "Hi"}))
            for number in range(MANY)
        ]
        answers = await asyncio.gather(*submits)
    assert Counter(answer.status_code for answer in answers) == {202: MANY}
    assert sorted(answer.json()["turn"] for answer in answers) == list(range(1, MANY + 1))
    events = await idle.parts.command_handler.load_events(idle.tenant, session)
    assert [event.sequence for event in events] == list(range(1, MANY + 2))


async def test_full_queue_returns_429_until_a_turn_is_cancelled(idle: RunningGateway) -> None:
    session = await idle.open_session("tiny")
    for _ in range(3):
        await idle.submit_turn(session)
    url = f"/v1/sessions/{session}/turns"
    answer = await idle.http.post(url, json={"text": "Hi"})
    assert (answer.status_code, answer.json()["code"]) == (429, "queue-full")
    assert int(answer.headers["Retry-After"]) >= 1
    await idle.http.post(f"/v1/sessions/{session}/cancel", json={"turn": 2})
    assert (await idle.http.post(url, json={"text": "Hi"})).status_code == 202


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0"])
async def test_unsupported_accept_header_is_refused_before_the_turn_is_recorded(
    idle: RunningGateway, accept: str
) -> None:
    session = await idle.open_session()
    url = f"/v1/sessions/{session}/turns"
    answer = await idle.http.post(url, json={"text": "Hi"}, headers={"Accept": accept})
    assert (answer.status_code, answer.json()["code"]) == (406, "not-acceptable")
    assert (await idle.fetch_json(f"/v1/sessions/{session}"))["turns"] == 0
