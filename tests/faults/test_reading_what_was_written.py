"""A read that asks for at least a sequence gets it or times out, and never gets less."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.faults.attacked_service import AttackedService
from tests.faults.checks.evidence_collection import assert_no_findings
from tests.faults.clients.attack_client import AttackClient
from tests.faults.clients.client_history import ClientHistory
from tests.support.processes.live_service import TENANT

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
    pytest.mark.slow("processes are attacked and have to recover"),
]

BEHIND = 504


async def write_turn(attacked: AttackedService, client: AttackClient) -> int:
    last = await attacked.service.nats.log.read_last_event(TENANT, client.session, leader=True)
    assert last is not None
    return last.sequence


@pytest.mark.promise("P12")
async def test_stopped_projector_never_serves_old_rows_as_current(
    attacked: AttackedService, client: AttackClient, history: ClientHistory
) -> None:
    await client.run_conversation(1)
    assert await client.read_calls(await write_turn(attacked, client)) == 200
    projector = attacked.get_process("projector")
    projector.send_signal(signal.SIGSTOP)
    try:
        await client.watch_turn(await client.submit_turn())
        assert await client.read_calls(await write_turn(attacked, client)) == BEHIND
        reading = asyncio.create_task(client.read_calls(await write_turn(attacked, client)))
    finally:
        projector.send_signal(signal.SIGCONT)
    assert await reading == 200
    await assert_no_findings(attacked, history)
