"""Each role killed at each of its points: nothing is lost, doubled, or left unfinished."""

from __future__ import annotations

import asyncio
import signal

import httpx
import pytest

from tests.faults.attacked_service import ACK_WAIT, AttackedService
from tests.faults.checks.evidence_collection import assert_no_findings
from tests.faults.clients.attack_client import AttackClient
from tests.faults.clients.client_history import ClientHistory
from tests.faults.crash_points import AGENT_CRASH_POINTS, CRASH_POINTS, CrashPoint
from tests.faults.suite_extent import RUN_EVERYTHING
from tests.services.media.media_samples import make_png
from turnlog.client import AsyncTurnlogClient
from turnlog.events.content import compute_digest

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
    pytest.mark.slow("processes are attacked and have to recover"),
]

KILLS = CRASH_POINTS if RUN_EVERYTHING else CRASH_POINTS[::3]
PAUSES = (
    [crash for crash in CRASH_POINTS if len(crash.points) == 1]
    if RUN_EVERYTHING
    else CRASH_POINTS[3:4]
)


@pytest.mark.promise("P1", "P4", "P6", "P7", "P8", "P9", "P10")
@pytest.mark.parametrize("crash", KILLS, ids=str)
async def test_crash_breaks_no_promise(
    attacked: AttackedService, client: AttackClient, history: ClientHistory, crash: CrashPoint
) -> None:
    conversation = asyncio.create_task(client.run_conversation(2))
    for point in crash.points:
        attacked.set_kill_point(crash.role, point)
        await attacked.wait_for_death(crash.role)
    await attacked.start_missing()
    await conversation
    await assert_no_findings(attacked, history)


@pytest.mark.promise("P6", "P7", "P8", "P9", "P10")
@pytest.mark.parametrize(
    "crash", AGENT_CRASH_POINTS if RUN_EVERYTHING else AGENT_CRASH_POINTS[1:10:4], ids=str
)
async def test_u16_crash_in_a_turn_of_several_calls_repeats_nothing_that_must_run_once(
    attacked: AttackedService, client: AttackClient, history: ClientHistory, crash: CrashPoint
) -> None:
    conversation = asyncio.create_task(client.run_conversation(1, "errand"))
    attacked.set_kill_point(crash.role, crash.points[0])
    await attacked.wait_for_death(crash.role)
    await attacked.start_missing()
    await conversation
    (turn,) = history.heard
    assert turn.end == "done"
    await assert_no_findings(attacked, history)


@pytest.mark.promise("P6", "P7", "P8", "P10")
@pytest.mark.parametrize("crash", PAUSES, ids=str)
async def test_process_that_stops_at_a_point_and_continues_breaks_no_promise(
    attacked: AttackedService, client: AttackClient, history: ClientHistory, crash: CrashPoint
) -> None:
    attacked.set_stop_point(crash.role, crash.points[0])
    conversation = asyncio.create_task(client.run_conversation(2))
    process = await attacked.wait_for_stop(crash.role)
    await asyncio.sleep(2 * ACK_WAIT)
    process.send_signal(signal.SIGCONT)
    await conversation
    await assert_no_findings(attacked, history)


@pytest.mark.parametrize("point", ["before-blob", "after-blob"])
async def test_gateway_that_dies_within_an_upload_leaves_none_and_the_next_one_is_whole(
    attacked: AttackedService, point: str
) -> None:
    data = make_png(1_500_000 + len(point))
    http = attacked.service.http
    attacked.set_kill_point("gateway", point)
    with pytest.raises(httpx.TransportError):
        await http.post("/v1/blobs", content=data, headers={"Content-Type": "image/png"})
    await attacked.wait_for_death("gateway")
    await attacked.start_missing()
    async with AsyncTurnlogClient(str(http.base_url)) as client:
        assert await client.find_blob(compute_digest(data)) is None
        stored = await client.upload_blob(data, "image/png")
        assert stored.digest == compute_digest(data)
        assert await client.fetch_blob(stored.digest) == data
