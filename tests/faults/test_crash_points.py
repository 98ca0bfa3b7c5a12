"""Each role killed at each of its points: nothing is lost, doubled, or left unfinished."""

from __future__ import annotations

import asyncio
import json
import signal

import httpx
import pytest

from tests.faults.attacked_service import ACK_WAIT, AttackedService
from tests.faults.checks.evidence_collection import assert_no_findings
from tests.faults.clients.attack_client import AttackClient
from tests.faults.clients.client_history import ClientHistory
from tests.faults.crash_points import (
    AGENT_CRASH_POINTS,
    CRASH_POINTS,
    MEDIA_CRASH_POINTS,
    CrashPoint,
)
from tests.faults.suite_extent import RUN_EVERYTHING
from tests.services.media.media_samples import PNG, make_png
from turnlog.client import AsyncTurnlogClient
from turnlog.events.content import compute_digest, get_plain_text
from turnlog.events.model.call_events import CallCompleted
from turnlog.events.model.tool_events import ToolReturned
from turnlog.events.model.turn_events import TurnSubmitted

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


@pytest.mark.promise("P1", "P4", "P6", "P7", "P8", "P9", "P10")
@pytest.mark.parametrize(
    "crash",
    MEDIA_CRASH_POINTS
    if RUN_EVERYTHING
    else [each for each in MEDIA_CRASH_POINTS if each.points[0].endswith("media")][1::2],
    ids=str,
)
async def test_crash_in_a_turn_with_pictures_leaves_a_whole_record_of_them(
    attacked: AttackedService, client: AttackClient, history: ClientHistory, crash: CrashPoint
) -> None:
    await client.open_session("gallery")
    picture = make_png(600_000 + len(client.name))
    attacked.set_kill_point(crash.role, crash.points[0])
    submitting = asyncio.create_task(client.submit_turn(picture=picture))
    if crash.role == "gateway":
        await attacked.wait_for_death(crash.role)
        await attacked.start_missing()
    turn = await submitting
    watching = asyncio.create_task(client.watch_turn(turn))
    if crash.role == "worker":
        await attacked.wait_for_death(crash.role)
        await attacked.start_missing()
    assert (await watching).end == "done"
    await assert_no_findings(attacked, history)
    service = attacked.service
    (submitted,) = await service.list_events_of_type(client.session, TurnSubmitted)
    assert [part.digest for part in submitted.parts] == [compute_digest(picture)]
    (returned,) = await service.list_events_of_type(client.session, ToolReturned)
    assert (returned.outcome, [part.digest for part in returned.parts]) == (
        "answered",
        [compute_digest(PNG)],
    )
    calls = await service.list_events_of_type(client.session, CallCompleted)
    reasoned = [json.loads(get_plain_text(each.reasoning) or "") for each in calls]
    assert reasoned == [{"reasoning_content": f"Round {n}."} for n in (1, 2)]
    # Every prompt is assembled again, and every picture is read back.
    report = await service.get_json(f"/v1/sessions/{client.session}/verify")
    assert report["verified"], report


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
