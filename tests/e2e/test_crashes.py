"""Processes killed or stopped at the worst moments, and how the service recovers."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

import httpx
import pytest
import pytest_asyncio

from tests.parts.openai_behaviours import Answer
from tests.parts.proof import rows_before_and_after, states_loaded_and_folded
from tests.parts.roles import Roles
from tests.parts.service import Service
from tests.services.gateway.watching import Heard
from turnlog.events.model.call_events import AttemptEnded, AttemptStarted
from turnlog.events.model.turn_events import TurnCompleted, TurnSubmitted

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

WORKERS = 2
LOST = ("lost", "unknown", None)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def working(separate: Roles) -> AsyncIterator[Roles]:
    await loaded(separate, {(await separate.start_worker()).pid for _ in range(WORKERS)})
    yield separate


async def loaded(running: Roles, workers: set[int]) -> None:
    """Wait until each of these workers has answered, so that it has loaded litellm."""
    session = await running.service.open()
    while workers:
        turn = (await running.service.say(session))["turn"]
        workers = workers - {await running.service.worker_of(session, turn)}


@dataclass(frozen=True, slots=True)
class Begun:
    """A turn whose model has sent one token and waits; its worker is known."""

    session: str
    worker: int
    gate: asyncio.Event


async def begun(running: Roles, text: str = "Hi") -> Begun:
    gate = asyncio.Event()
    running.provider.will(Answer(("Never ", "heard."), gates={1: gate}))
    session = await running.service.open()
    await running.service.submit(session, text)
    worker = await running.service.worker_of(session)
    return Begun(session, worker, gate)


async def first_token(events: AsyncGenerator[Heard]) -> str:
    async for event in events:
        if event.name == "token":
            return str(event.json["text"])
    raise AssertionError("the stream ended without a token")


async def rest_of(events: AsyncGenerator[Heard]) -> list[Heard]:
    return [event async for event in events]


def after_reset(heard: list[Heard]) -> str:
    """Return the text that a watcher following the protocol has in the end."""
    reset = max(number for number, each in enumerate(heard) if each.name == "attempt-reset")
    return "".join(each.json["text"] for each in heard[reset:] if each.name == "token")


def taken(ended: AttemptEnded) -> tuple[str, str, int | None]:
    return ended.outcome, ended.usage.known, ended.cost.micro_dollars


async def recorded_reply(service: Service, session: str) -> str:
    history = await service.get(f"/v1/sessions/{session}/history")
    (turn,) = history["turns"]
    assert turn["status"] == "completed"
    return str(turn["reply"])


@pytest.mark.promise("P6")
async def test_a_worker_stopped_too_long_is_replaced_and_heard_only_of_its_cost(
    working: Roles,
) -> None:
    turn = await begun(working)
    async with working.service.watching(turn.session) as watched:
        events = watched.events()
        assert await first_token(events) == "Never "
        os.kill(turn.worker, signal.SIGSTOP)
        heard = await rest_of(events)
        os.kill(turn.worker, signal.SIGCONT)
    assert heard[-1].name == "done"
    assert after_reset(heard) == "An answer."
    # The superseded worker's attempt has a cost of its own, which nobody can count exactly.
    late = await working.service.until(
        turn.session, AttemptEnded, such=lambda ended: ended.outcome == "cancelled"
    )
    assert (late.attempt, late.usage.known) == (1, "estimated")
    assert late.cost.micro_dollars
    ended = await working.service.of_kind(turn.session, AttemptEnded)
    assert taken(ended[0]) == LOST
    assert [each.attempt for each in ended] == [1, 2, 1]
    assert len(await working.service.of_kind(turn.session, TurnCompleted)) == 1
    assert await recorded_reply(working.service, turn.session) == "An answer."


@pytest.mark.promise("P6", "P8")
async def test_a_worker_killed_mid_stream_is_replaced_and_one_answer_recorded(
    working: Roles,
) -> None:
    turn = await begun(working)
    async with working.service.watching(turn.session) as watched:
        events = watched.events()
        assert await first_token(events) == "Never "
        os.kill(turn.worker, signal.SIGKILL)
        heard = await rest_of(events)
    assert heard[-1].name == "done"
    assert after_reset(heard) == await recorded_reply(working.service, turn.session)
    started = await working.service.of_kind(turn.session, AttemptStarted)
    assert [each.attempt for each in started] == [1, 2]
    assert started[0].worker != started[1].worker
    lost, answered = await working.service.of_kind(turn.session, AttemptEnded)
    assert taken(lost) == LOST
    assert (answered.outcome, answered.usage.known) == ("answered", "reported")
    (call,) = await working.service.calls(turn.session)
    costs = [each["micro_dollars"] for each in call["attempts"]]
    assert costs == [None, answered.cost.micro_dollars]
    assert call["known"] == "unknown"
    assert len(await working.service.of_kind(turn.session, TurnCompleted)) == 1


async def asked_once(service: Service, session: str, text: str) -> httpx.Response:
    url = f"/v1/sessions/{session}/turns?wait=150"
    return await service.http.post(url, json={"text": text}, headers={"Idempotency-Key": "key"})


@pytest.mark.promise("P4")
async def test_a_gateway_killed_after_its_append_is_asked_again_with_the_same_key(
    working: Roles,
) -> None:
    service, gate = working.service, asyncio.Event()
    working.provider.will(Answer(gates={1: gate}))
    session = await service.open()
    asking = asyncio.create_task(asked_once(service, session, "Once"))
    await service.until(session, TurnSubmitted)
    working.gateway.kill()
    with pytest.raises(httpx.TransportError):
        await asking
    await working.gateway.wait()
    await working.start_gateway()
    again = asyncio.create_task(asked_once(service, session, "Once"))
    gate.set()
    told = (await again).json()
    events = await service.events(session)
    submitted = [each.sequence for each in events if isinstance(each.event, TurnSubmitted)]
    assert submitted == [told["sequence"]]
    assert (told["turn"], told["status"], told["reply"]) == (1, "completed", "An answer.")
    other = await asked_once(service, session, "Twice")
    assert (other.status_code, other.json()["code"]) == (409, "key-reused")


async def test_nats_killed_and_started_again_loses_no_turn(working: Roles) -> None:
    turn = await begun(working)
    async with working.service.watching(turn.session) as watched:
        await first_token(watched.events())
        await working.restart_nats()
    turn.gate.set()
    await working.service.ready(working.gateway)
    assert (await working.service.say(await working.service.open()))["status"] == "completed"
    await working.service.until(turn.session, TurnCompleted)
    assert len(await working.service.of_kind(turn.session, TurnCompleted)) == 1
    assert await recorded_reply(working.service, turn.session) in {"Never heard.", "An answer."}


@pytest.mark.promise("P9", "P10")
async def test_after_all_this_rows_and_states_had_again_from_the_log_equal_the_live_ones(
    working: Roles,
) -> None:
    before, after = await rows_before_and_after(working.service, working.database)
    assert before["attempts"]
    assert before == after
    for loaded, folded in await states_loaded_and_folded(working.service):
        assert loaded == folded
