"""Processes that are told to end while NATS is unreachable exit in good order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.client import Client
from tests.faults.evidence import nothing_is_wrong
from tests.faults.history import History
from tests.faults.site import ROLES, site
from tests.parts.openai_behaviours import Echo
from tests.parts.processes import ended

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(400)]


@pytest.mark.promise("P20")
async def test_every_role_ends_in_good_order_while_nats_is_gone(
    tmp_path: Path, history: History
) -> None:
    async with site(tmp_path) as attacked:
        client = Client(attacked.service.http, history)
        attacked.provider.will(Echo(gates={1: asyncio.Event()}))
        await client.open()
        turn = await client.submit()
        await attacked.service.worker_of(client.session)
        await attacked.kill_nats()
        codes = await asyncio.gather(*map(ended, attacked.all("gateway", "projector", "worker")))
        assert codes == [0] * len(ROLES)
        await attacked.server.restart()
        await attacked.start_missing()
        assert (await client.watch(turn)).end == "done"
        await nothing_is_wrong(attacked, history)
