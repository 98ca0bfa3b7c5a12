"""A service whose keyring is elsewhere: what its outage stops, and that nothing is lost by it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.agent_programs.agent_service import answer_with_text
from tests.support.processes.process_host import ProcessHost
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from tests.support.servers.key_service import TOKEN, KeyService, run_key_service
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.model.turn_events import TurnCompleted
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
    service = sealed_up.service
    provider.queue_behaviours(answer_with_text("the reply"))
    keys.denied_actions.add("decrypt")
    session = await service.open_session()
    turn = await service.submit_turn(session, "the question")
    assert await asyncio.to_thread(keys.has_denied.wait, 30)
    keys.denied_actions.clear()
    await service.wait_for_event(session, TurnCompleted, turn=turn)
    await service.list_calls(session)
    (answered,) = (await service.get_json(f"/v1/sessions/{session}/history"))["turns"]
    assert (answered["text"], answered["reply"]) == ("the question", "the reply")
    report = await service.get_json(f"/v1/sessions/{session}/verify")
    assert (report["verified"], report["reproduction"]) == (True, "reproduced")
    assert not (sealed_up.ready_file.parent / KEYRING_FILE).exists()


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
