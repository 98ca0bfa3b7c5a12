"""Each role killed at each of its points: nothing is lost, doubled, or left unfinished."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.faults.client import Client
from tests.faults.evidence import nothing_is_wrong
from tests.faults.extent import ALL
from tests.faults.history import History
from tests.faults.points import ERRANDS, POINTS, Crash
from tests.faults.site import ACK_WAIT, Site

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

KILLS = POINTS if ALL else POINTS[::3]
PAUSES = [crash for crash in POINTS if len(crash.points) == 1] if ALL else POINTS[3:4]


@pytest.mark.promise("P1", "P4", "P6", "P7", "P8", "P9", "P10")
@pytest.mark.parametrize("crash", KILLS, ids=str)
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


@pytest.mark.promise("P6", "P7", "P8", "P9", "P10")
@pytest.mark.parametrize("crash", ERRANDS if ALL else ERRANDS[1:10:4], ids=str)
async def test_u16_a_crash_in_a_turn_of_several_calls_repeats_nothing_that_must_not_be(
    attacked: Site, client: Client, history: History, crash: Crash
) -> None:
    talking = asyncio.create_task(client.converse(1, "errand"))
    attacked.die_at(crash.role, crash.points[0])
    await attacked.died(crash.role)
    await attacked.start_missing()
    await talking
    (turn,) = history.heard
    assert turn.end == "done"
    await nothing_is_wrong(attacked, history)


@pytest.mark.promise("P6", "P7", "P8", "P10")
@pytest.mark.parametrize("crash", PAUSES, ids=str)
async def test_a_process_that_stops_at_a_point_and_goes_on_breaks_no_promise(
    attacked: Site, client: Client, history: History, crash: Crash
) -> None:
    attacked.stop_at(crash.role, crash.points[0])
    talking = asyncio.create_task(client.converse(2))
    process = await attacked.halted(crash.role)
    await asyncio.sleep(2 * ACK_WAIT)
    process.send_signal(signal.SIGCONT)
    await talking
    await nothing_is_wrong(attacked, history)
