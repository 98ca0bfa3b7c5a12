"""A read that asks for at least a sequence gets it or times out, and never gets less."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.faults.client import Client
from tests.faults.evidence import nothing_is_wrong
from tests.faults.history import History
from tests.faults.site import Site
from tests.parts.service import TENANT

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

BEHIND = 504


async def written(attacked: Site, client: Client) -> int:
    last = await attacked.service.nats.log.read_last_event(TENANT, client.session, leader=True)
    assert last is not None
    return last.sequence


@pytest.mark.promise("P12")
async def test_while_the_projector_stands_still_nobody_is_shown_old_rows_as_new(
    attacked: Site, client: Client, history: History
) -> None:
    await client.converse(1)
    assert await client.look(await written(attacked, client)) == 200
    projector = attacked.one("projector")
    projector.send_signal(signal.SIGSTOP)
    try:
        await client.watch(await client.submit())
        assert await client.look(await written(attacked, client)) == BEHIND
        reading = asyncio.create_task(client.look(await written(attacked, client)))
    finally:
        projector.send_signal(signal.SIGCONT)
    assert await reading == 200
    await nothing_is_wrong(attacked, history)
