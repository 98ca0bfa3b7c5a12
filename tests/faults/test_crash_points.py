"""Each role killed at each of its points: nothing is lost, doubled, or left half done."""

from __future__ import annotations

import asyncio

import pytest

from tests.faults.client import Client
from tests.faults.evidence import nothing_is_wrong
from tests.faults.history import History
from tests.faults.points import POINTS, Crash
from tests.faults.site import Site
from turnlog.events.call import AttemptStarted

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]


@pytest.mark.promise("P1", "P4", "P6", "P7", "P8", "P9", "P10")
@pytest.mark.parametrize("crash", POINTS, ids=str)
async def test_a_crash_breaks_no_promise(
    attacked: Site, client: Client, history: History, crash: Crash
) -> None:
    talking = asyncio.create_task(client.converse(2))
    for point in crash.points:
        attacked.die_at(crash.role, point)
        await attacked.died(crash.role)
    await attacked.start_missing()
    await talking
    await nothing_is_wrong(attacked, history)
    assert await attempts(attacked, client.session) == crash.attempts


async def attempts(attacked: Site, session: str) -> int:
    return len(await attacked.service.of_kind(session, AttemptStarted))
