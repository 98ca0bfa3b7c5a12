"""A service whose keyring is elsewhere: what its outage stops, and that nothing is lost by it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus

import pytest
import pytest_asyncio

from tests.support.processes.live_service import TENANT
from tests.support.processes.process_host import ProcessHost
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from tests.support.servers.key_service import TOKEN, KeyService, run_key_service
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.jetstream.direct_get import get_last_message
from turnlog.events.jetstream.session_keys import parse_record, store_record
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.events.subjects import KEYS_STREAM, build_key_subject
from turnlog.services.seals.keyring_files import KEYRING_FILE
from turnlog.services.seals.vault_keyring import create_keyring

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("a service starts"),
]


@pytest.fixture(scope="module")
def keys() -> Iterator[KeyService]:
    with run_key_service(KeyService()) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def sealed_up(host: ProcessHost, keys: KeyService) -> AsyncIterator[TurnlogUp]:
    variables = {
        "TURNLOG_SEALING": "on",
        "TURNLOG_KEYRING": keys.address,
        "TURNLOG_KEYRING_TOKEN": TOKEN,
    }
    keyring = create_keyring(keys.address.removeprefix("vault+"), TOKEN)
    async with run_turnlog_up(host, variables=variables, keyring=keyring) as up:
        yield up


async def test_worker_and_projector_wait_for_the_keyring_and_lose_nothing(
    sealed_up: TurnlogUp, keys: KeyService, provider: OpenAIServer
) -> None:
    service, gate = sealed_up.service, asyncio.Event()
    provider.queue_behaviours(ModelAnswer(tokens=("the ", "reply"), gates={2: gate}))
    session = await service.open_session()
    turn = await service.submit_turn(session, "the question")
    await provider.wait_for_exchange(1)
    await forget_keys(sealed_up, keys, session)
    gate.set()
    assert await asyncio.to_thread(keys.has_denied.wait, 30)
    keys.denied_actions.clear()
    await service.wait_for_event(session, TurnCompleted, turn=turn)
    await service.list_calls(session)
    (answered,) = (await service.get_json(f"/v1/sessions/{session}/history"))["turns"]
    assert (answered["text"], answered["reply"]) == ("the question", "the reply")
    report = await service.get_json(f"/v1/sessions/{session}/verify")
    assert (report["verified"], report["reproduction"]) == (True, "reproduced")
    assert not (sealed_up.ready_file.parent / KEYRING_FILE).exists()


async def forget_keys(up: TurnlogUp, keys: KeyService, session: str) -> None:
    """Let the service forget a session's keys, and what it has sealed, while nobody unwraps them.

    The record of keys is wrapped again, as when the key of the service of keys has a new version.
    """
    connection = up.service.nats.connection
    subject = build_key_subject(TENANT, session)
    found = await get_last_message(connection, KEYS_STREAM, subject, leader=True)
    assert found is not None
    keyring = create_keyring(keys.address.removeprefix("vault+"), TOKEN)
    record = await keyring.unwrap_keys(TENANT, parse_record(session, found.payload))
    keys.denied_actions.add("decrypt")
    owner, behind = (TENANT, session), found.stream_sequence
    await store_record(
        connection=connection, keyring=keyring, owner=owner, keys=record, behind=behind
    )
    async with asyncio.timeout(30):
        path = f"/v1/sessions/{session}/history"
        while (await up.service.http.get(path)).status_code != HTTPStatus.SERVICE_UNAVAILABLE:
            pass  # It is told of the record a moment later.
    keys.has_denied.clear()


async def test_session_is_not_opened_while_the_keyring_is_away(
    sealed_up: TurnlogUp, keys: KeyService
) -> None:
    keys.denied_actions.add("encrypt")
    refused = await sealed_up.service.http.post("/v1/sessions", json={"blueprint": "assistant"})
    assert refused.status_code == 503
    problem = refused.json()
    assert "keyring is unavailable" in problem["detail"]
    assert "TURNLOG_KEYRING" in problem["detail"]
    keys.denied_actions.clear()
    assert await sealed_up.service.open_session()
