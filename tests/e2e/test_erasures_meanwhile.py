"""Erasures while others erase too, answer a turn, rebuild the rows or replay events."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.e2e.test_erased_words import SECRET, add_turns, erase, run_turns
from tests.e2e.test_sealed_sessions import list_files_with
from tests.support.processes.process_host import run_turnlog
from tests.support.processes.turnlog_up import TurnlogUp, read_keyring
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.envelope import RecordedEvent
from turnlog.events.jetstream.event_consumer import subscribe_events
from turnlog.events.model.redaction_events import ContentErased

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("a service starts"),
]


def read_nats_url(up: TurnlogUp) -> str:
    return str(json.loads(up.ready_file.read_bytes())["nats"])


async def require_erased(up: TurnlogUp, *sessions: str) -> None:
    """Require that sessions verify, that parts of them are erased, and that no file has them."""
    for session in sessions:
        report = await up.service.get_json(f"/v1/sessions/{session}/verify")
        assert (report["verified"], report["reproduction"]) == (True, "erased"), report
    assert list(list_files_with(up.ready_file.parent, SECRET.encode())) == []


async def test_erasures_of_the_same_and_of_other_turns_at_once_all_end(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    session = await run_turns(sealed_up, provider, *(f"{SECRET} {each}" for each in range(4)))
    path = f"/v1/sessions/{session}/erasures"
    forms = [{"turn": turn, "reason": "request"} for turn in (1, 1, 2, 3, 4)]
    answers = await asyncio.gather(
        *(sealed_up.service.http.post(path, json=form, timeout=60) for form in forms)
    )
    statuses = [each.json().get("status", each.text) for each in answers]
    again = [each.json().get("code") for each in answers if not each.is_success]
    assert again in ([], ["already-erased"]), statuses
    await wait_until_all_ended(sealed_up, session)
    await require_erased(sealed_up, session)
    history = await sealed_up.service.get_json(f"/v1/sessions/{session}/history")
    assert {turn["text"] for turn in history["turns"]} == {"[erased]"}


async def wait_until_all_ended(up: TurnlogUp, session: str) -> None:
    """Wait until every erasure that was begun has its receipt."""
    listed: dict[str, Any] = await up.service.get_json(f"/v1/sessions/{session}/erasures")
    waiting = [each["erasure"] for each in listed["erasures"] if each["status"] != "erased"]
    async with subscribe_events(
        read_nats_url(up),
        session=session,
        keyring=read_keyring(up.ready_file.parent),
    ) as events:
        while waiting:
            item = await anext(events)
            if isinstance(item, RecordedEvent) and isinstance(item.event, ContentErased):
                waiting = [each for each in waiting if each != item.event.begun]


async def test_fork_with_an_open_turn_is_waited_for(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    service = sealed_up.service
    provider.clear_exchanges()  # Nor is anything queued that another test has left.
    session = await run_turns(sealed_up, provider, f"{SECRET} one")
    end = (await service.get_json(f"/v1/sessions/{session}"))["sequence"]
    forked = await service.http.post(f"/v1/sessions/{session}/fork", json={"at": end})
    fork = forked.json()["session"]
    gate = asyncio.Event()
    provider.queue_behaviours(ModelAnswer(tokens=("So ", "it is."), gates={1: gate}))
    turn = await service.submit_turn(fork, "two")
    await provider.wait_for_exchange(2)
    refused = await service.http.post(
        f"/v1/sessions/{fork}/erasures", json={"reason": "request", "turn": turn}
    )
    assert refused.json()["code"] == "turn-open", refused.text
    receipt = await erase(sealed_up, session, turn=1)
    assert receipt["status"] == "begun", receipt
    proof = f"/v1/sessions/{session}/erasures/{receipt['erasure']}/proof"
    refused = await service.http.get(proof)
    assert (refused.status_code, refused.json()["code"]) == (409, "not-erased"), refused.text
    gate.set()
    await wait_until_all_ended(sealed_up, session)
    assert (await service.http.get(proof)).is_success
    await require_erased(sealed_up, session, fork)


async def test_rebuild_that_runs_meanwhile_has_no_row_with_the_words(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    service, folder = sealed_up.service, sealed_up.ready_file.parent
    opened = await service.http.post(
        "/v1/sessions", json={"blueprint": "uderia", "title": f"{SECRET} title"}
    )
    session = str(opened.json()["session"])
    await add_turns(sealed_up, provider, session, f"{SECRET} one")
    assert list(list_files_with(folder, SECRET.encode())) != []
    (code, _, errors), receipt = await asyncio.gather(
        run_turnlog("rebuild", "--data-dir", str(folder)), erase(sealed_up, session)
    )
    assert code == 0, errors
    assert receipt["status"] == "erased", receipt
    await require_erased(sealed_up, session)


async def test_consumer_that_replays_meanwhile_gets_every_event_and_no_words_afterwards(
    sealed_up: TurnlogUp, provider: OpenAIServer
) -> None:
    session = await run_turns(sealed_up, provider, f"{SECRET} one", "two")
    count = (await sealed_up.service.get_json(f"/v1/sessions/{session}"))["sequence"]
    url = read_nats_url(sealed_up)
    keyring = read_keyring(sealed_up.ready_file.parent)
    async with subscribe_events(url, keyring=keyring) as events:
        first = await anext(events)
        receipt = await erase(sealed_up, session, turn=1)
        assert receipt["status"] == "erased", receipt
        last = first
        while not (isinstance(last, RecordedEvent) and is_end_of(last, session)):
            last = await anext(events)
    async with subscribe_events(url, session=session, keyring=keyring) as events:
        replayed = [await anext(events) for _ in range(count)]
    assert SECRET not in str(replayed)
    assert "'two'" in str(replayed)


def is_end_of(recorded: RecordedEvent, session: str) -> bool:
    return recorded.session == session and isinstance(recorded.event, ContentErased)
