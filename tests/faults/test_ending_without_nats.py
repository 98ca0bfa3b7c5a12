"""Processes that are told to end while NATS is unreachable exit in good order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.attacked_service import STARTED_ROLES, run_attacked_service
from tests.faults.checks.evidence_collection import assert_no_findings
from tests.faults.clients.attack_client import AttackClient
from tests.faults.clients.client_history import ClientHistory
from tests.support.processes.process_host import stop_cleanly
from tests.support.servers.model_behaviours import EchoAnswer

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(400),
    pytest.mark.slow("processes are attacked and have to recover"),
]


@pytest.mark.promise("P20")
async def test_every_role_exits_cleanly_while_nats_is_unreachable(
    tmp_path: Path, history: ClientHistory
) -> None:
    async with run_attacked_service(tmp_path) as attacked:
        client = AttackClient(http=attacked.service.http, history=history)
        attacked.provider.queue_behaviours(EchoAnswer(gates={1: asyncio.Event()}))
        await client.open_session()
        turn = await client.submit_turn()
        await attacked.provider.wait_for_exchange(1)
        await attacked.kill_nats()
        processes = attacked.list_processes("gateway", "projector", "worker")
        assert len(processes) == len(STARTED_ROLES)
        await stop_cleanly(*processes)
        await attacked.server.restart()
        await attacked.start_missing()
        assert (await client.watch_turn(turn)).end == "done"
        await assert_no_findings(attacked, history)
