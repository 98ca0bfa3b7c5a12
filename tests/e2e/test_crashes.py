"""Processes killed or stopped at the worst moments, and how the service recovers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from typing import cast

import httpx
import pytest
import pytest_asyncio

from tests.services.gateway.streaming.sse_client import ReceivedEvent
from tests.support.processes.live_service import LiveService, connect_service
from tests.support.processes.process_host import ProcessHost, wait_for_file
from tests.support.processes.rebuild_checks import load_and_fold_states, read_rows_around_rebuild
from tests.support.processes.separate_roles import SeparateRoles
from tests.support.processes.turnlog_up import read_keyring, run_turnlog_up
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.model.call_events import AttemptEnded, AttemptStarted
from turnlog.events.model.child_events import ChildRequested, ChildSettled
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    ApprovalRequested,
    ToolReturned,
    ToolStarted,
)
from turnlog.events.model.turn_events import TurnCompleted, TurnSubmitted

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(600),
    pytest.mark.slow("processes of the service start, stop and recover"),
]

WORKERS = 2
LOST = ("lost", "unknown", None)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def working(separate: SeparateRoles) -> AsyncIterator[SeparateRoles]:
    await wait_for_workers(separate, {(await separate.start_worker()).pid for _ in range(WORKERS)})
    yield separate


async def wait_for_workers(running: SeparateRoles, workers: set[int]) -> None:
    """Wait until each of these workers has answered, so that it has loaded litellm."""
    session = await running.service.open_session()
    while workers:
        turn = (await running.service.run_turn(session))["turn"]
        workers = workers - {await running.service.wait_for_worker_pid(session, turn)}


@dataclass(frozen=True, slots=True)
class StartedTurn:
    """A turn whose model has sent one token and waits; its worker is known."""

    session: str
    worker: int
    gate: asyncio.Event


async def start_turn(running: SeparateRoles, text: str = "Hi") -> StartedTurn:
    gate = asyncio.Event()
    running.provider.queue_behaviours(ModelAnswer(tokens=("Never ", "heard."), gates={1: gate}))
    session = await running.service.open_session()
    await running.service.submit_turn(session, text)
    worker = await running.service.wait_for_worker_pid(session)
    return StartedTurn(session, worker, gate)


async def read_first_token(events: AsyncGenerator[ReceivedEvent]) -> str:
    async for event in events:
        if event.name == "token":
            return str(event.json["text"])
    raise AssertionError("the stream ended without a token")


async def read_rest(events: AsyncGenerator[ReceivedEvent]) -> list[ReceivedEvent]:
    return [event async for event in events]


def join_text_after_reset(received: list[ReceivedEvent]) -> str:
    """Return the text that a watcher following the protocol has in the end."""
    reset = max(number for number, each in enumerate(received) if each.name == "attempt-reset")
    return "".join(each.json["text"] for each in received[reset:] if each.name == "token")


def describe_attempt(ended: AttemptEnded) -> tuple[str, str, int | None]:
    return ended.outcome, ended.usage.known, ended.cost.micro_dollars


async def read_recorded_reply(service: LiveService, session: str) -> str:
    history = await service.get_json(f"/v1/sessions/{session}/history")
    (turn,) = history["turns"]
    assert turn["status"] == "completed"
    return str(turn["reply"])


@pytest.mark.promise("P6")
async def test_worker_stopped_too_long_is_replaced_and_records_only_its_cost(
    working: SeparateRoles,
) -> None:
    turn = await start_turn(working)
    async with working.service.watch_turn(turn.session) as watched:
        events = watched.iterate_events()
        assert await read_first_token(events) == "Never "
        os.kill(turn.worker, signal.SIGSTOP)
        received = await read_rest(events)
        os.kill(turn.worker, signal.SIGCONT)
    assert received[-1].name == "done"
    assert join_text_after_reset(received) == "An answer."
    # The superseded worker's attempt has a cost of its own, which nobody can count exactly.
    late = await working.service.wait_for_event(
        turn.session, AttemptEnded, such=lambda ended: ended.outcome == "cancelled"
    )
    assert (late.attempt, late.usage.known) == (1, "estimated")
    assert late.cost.micro_dollars
    ended = await working.service.list_events_of_type(turn.session, AttemptEnded)
    assert describe_attempt(ended[0]) == LOST
    assert [each.attempt for each in ended] == [1, 2, 1]
    assert len(await working.service.list_events_of_type(turn.session, TurnCompleted)) == 1
    assert await read_recorded_reply(working.service, turn.session) == "An answer."


@pytest.mark.promise("P6", "P8")
async def test_worker_killed_mid_stream_is_replaced_and_one_reply_is_recorded(
    working: SeparateRoles,
) -> None:
    turn = await start_turn(working)
    async with working.service.watch_turn(turn.session) as watched:
        events = watched.iterate_events()
        assert await read_first_token(events) == "Never "
        os.kill(turn.worker, signal.SIGKILL)
        received = await read_rest(events)
    assert received[-1].name == "done"
    assert join_text_after_reset(received) == await read_recorded_reply(
        working.service, turn.session
    )
    started = await working.service.list_events_of_type(turn.session, AttemptStarted)
    assert [each.attempt for each in started] == [1, 2]
    assert started[0].worker != started[1].worker
    lost, answered = await working.service.list_events_of_type(turn.session, AttemptEnded)
    assert describe_attempt(lost) == LOST
    assert (answered.outcome, answered.usage.known) == ("answered", "reported")
    (call,) = await working.service.list_calls(turn.session)
    costs = [each["micro_dollars"] for each in call["attempts"]]
    assert costs == [None, answered.cost.micro_dollars]
    assert call["known"] == "unknown"
    assert len(await working.service.list_events_of_type(turn.session, TurnCompleted)) == 1


async def submit_once(service: LiveService, session: str, text: str) -> httpx.Response:
    url = f"/v1/sessions/{session}/turns?wait=150"
    return await service.http.post(url, json={"text": text}, headers={"Idempotency-Key": "key"})


@pytest.mark.promise("P4")
async def test_request_to_a_gateway_killed_after_its_append_is_retried_with_the_same_key(
    working: SeparateRoles,
) -> None:
    service, gate = working.service, asyncio.Event()
    working.provider.queue_behaviours(ModelAnswer(gates={1: gate}))
    session = await service.open_session()
    asking = asyncio.create_task(submit_once(service, session, "Once"))
    await service.wait_for_event(session, TurnSubmitted)
    working.gateway.kill_process()
    with pytest.raises(httpx.TransportError):
        await asking
    await working.gateway.wait_for_exit()
    await working.start_gateway()
    again = asyncio.create_task(submit_once(service, session, "Once"))
    gate.set()
    response = (await again).json()
    events = await service.list_events(session)
    submitted = [each.sequence for each in events if isinstance(each.event, TurnSubmitted)]
    assert submitted == [response["sequence"]]
    assert (response["turn"], response["status"], response["reply"]) == (
        1,
        "completed",
        "An answer.",
    )
    other = await submit_once(service, session, "Twice")
    assert (other.status_code, other.json()["code"]) == (409, "key-reused")


async def test_killed_and_restarted_nats_loses_no_turn(working: SeparateRoles) -> None:
    turn = await start_turn(working)
    async with working.service.watch_turn(turn.session) as watched:
        await read_first_token(watched.iterate_events())
        await working.restart_nats()
    turn.gate.set()
    await working.service.wait_until_ready(working.gateway)
    assert (await working.service.run_turn(await working.service.open_session()))[
        "status"
    ] == "completed"
    await working.service.wait_for_event(turn.session, TurnCompleted)
    assert len(await working.service.list_events_of_type(turn.session, TurnCompleted)) == 1
    assert await read_recorded_reply(working.service, turn.session) in {
        "Never heard.",
        "An answer.",
    }


async def test_pending_approval_survives_restarts_of_every_process(working: SeparateRoles) -> None:
    called = (("time_get_current_time", json.dumps({"timezone": "UTC"})),)
    answers = (
        ModelAnswer(tokens=(), finish="tool_calls", tool_calls=called),
        ModelAnswer(tokens=("Noon.",)),
    )
    working.provider.queue_behaviours(*answers)
    session = await working.service.open_session("guarded")
    await working.service.submit_turn(session, "What time is it?")
    await working.service.wait_for_event(session, ApprovalRequested)
    for worker in working.workers:
        worker.kill_process()
        await worker.wait_for_exit()
    working.gateway.kill_process()
    await working.gateway.wait_for_exit()
    await working.restart_nats()
    await working.start_gateway()
    path = f"/v1/sessions/{session}/turns/1/approvals/1"
    decided = await working.service.http.post(path, json={"decision": "approve"})
    assert decided.status_code == 200, decided.text
    await working.start_worker()
    await working.service.wait_for_event(session, TurnCompleted)
    for kind in (ApprovalRequested, ApprovalDecided, ToolStarted, ToolReturned, TurnCompleted):
        assert len(await working.service.list_events_of_type(session, kind)) == 1
    (returned,) = await working.service.list_events_of_type(session, ToolReturned)
    assert returned.outcome == "answered"
    assert await read_recorded_reply(working.service, session) == "Noon."
    found = await working.service.get_json(f"/v1/sessions/{session}/verify")
    assert found["findings"] == []


async def test_killed_all_in_one_service_resumes_its_turns_at_once(
    host: ProcessHost, provider: OpenAIServer
) -> None:
    # No other worker would take the turn over before this test is given up.
    patient = {"TURNLOG_ACK_WAIT": "3600", "TURNLOG_MODEL_ADAPTER": "direct"}
    gate, exchanges = asyncio.Event(), len(provider.exchanges)
    provider.queue_behaviours(ModelAnswer(tokens=("Never ", "heard."), gates={1: gate}))
    words = ("up", "--data-dir", str(host.folder / "data"), "--http", "127.0.0.1:0")
    process = await host.start_process(*words, variables=patient)
    ready_file = host.folder / "data/ready.json"
    addresses = json.loads(await wait_for_file(ready_file, process))
    keyring = read_keyring(host.folder / "data")
    async with connect_service(addresses["http"], addresses["nats"], keyring=keyring) as service:
        session = await service.open_session()
        await service.submit_turn(session)
        await provider.wait_for_exchange(exchanges + 1)
    process.kill_process()
    await process.wait_for_exit()
    ready_file.unlink()
    gate.set()
    async with run_turnlog_up(host, variables=patient) as up:
        await up.service.wait_for_event(session, TurnCompleted)
        assert await read_recorded_reply(up.service, session) == "An answer."
        started = await up.service.list_events_of_type(session, AttemptStarted)
        assert [each.attempt for each in started] == [1, 2]


@dataclass
class TeamAnswers:
    """The answers of a coordinator and its children: the thinker's and the last one hang once."""

    hanging: set[str] = field(default_factory=lambda: {"Think.", "reply"})

    def choose_answer(self, body: dict[str, object]) -> ModelAnswer:
        """Answer by the prompt, since children are asked at the same time."""
        messages = cast("list[dict[str, object]]", body["messages"])
        asked = str(messages[-1]["content"])
        if not body.get("tools"):
            return self._answer_once_late(asked, f"Done: {asked}")
        if messages[-1]["role"] == "tool":
            return self._answer_once_late("reply", "It is done.")
        calls = (("thinker", '{"query": "Think."}'), ("seeker", '{"query": "Seek."}'))
        return ModelAnswer(tokens=(), finish="tool_calls", tool_calls=calls)

    def _answer_once_late(self, what: str, text: str) -> ModelAnswer:
        if what not in self.hanging:
            return ModelAnswer(tokens=(text,))
        self.hanging.remove(what)
        return ModelAnswer(tokens=("Never ", "heard."), gates={1: asyncio.Event()})


async def kill_worker_of(working: SeparateRoles, session: str, attempt: int = 1) -> None:
    """Kill the worker whose model has begun to answer an attempt, and start another."""
    async with working.service.watch_turn(session) as watched:
        await read_first_token(watched.iterate_events())
    started = await working.service.wait_for_event(
        session, AttemptStarted, such=lambda each: each.attempt >= attempt
    )
    os.kill(int(started.worker.rpartition("-")[2]), signal.SIGKILL)
    await working.start_worker()


async def test_coordinator_survives_kills_of_workers_and_nats(
    working: SeparateRoles,
) -> None:
    service = working.service
    await working.start_worker()
    working.provider.choose_behaviour = TeamAnswers().choose_answer
    session = await service.open_session("team")
    await service.submit_turn(session, "Do it.")
    thinker = await service.wait_for_event(
        session, ChildRequested, such=lambda each: each.profile == "thinker"
    )
    await service.wait_for_event(thinker.session, TurnSubmitted)
    await kill_worker_of(working, thinker.session)
    await working.restart_nats()
    await service.wait_until_ready(working.gateway)
    await service.wait_for_event(session, ChildSettled, such=lambda each: each.profile == "thinker")
    await kill_worker_of(working, session, attempt=2)
    await service.wait_for_event(session, TurnCompleted)
    working.provider.choose_behaviour = None
    assert await read_recorded_reply(service, session) == "It is done."
    settled = await service.list_events_of_type(session, ChildSettled)
    assert sorted((each.profile, each.outcome) for each in settled) == [
        *(("seeker", "answered"), ("thinker", "answered"))
    ]
    assert len(await service.list_events_of_type(session, ChildRequested)) == 2
    for each in settled:
        for kind in (TurnSubmitted, TurnCompleted):
            assert len(await service.list_events_of_type(each.session, kind)) == 1
    found = await service.get_json(f"/v1/sessions/{session}/verify")
    assert (found["verified"], len(found["children"])) == (True, 2)


@pytest.mark.promise("P9", "P10")
async def test_rebuilt_rows_and_states_equal_the_live_ones_after_all_crashes(
    working: SeparateRoles,
) -> None:
    before, after = await read_rows_around_rebuild(working.service, working.database)
    assert before["attempts"]
    assert before == after
    for loaded, folded in await load_and_fold_states(working.service):
        assert loaded == folded
