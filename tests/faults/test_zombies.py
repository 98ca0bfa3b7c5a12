"""A worker that is stopped, replaced, and continues: its cost is recorded, and nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from nats.aio.msg import Msg

from tests.faults.attacked_service import ACK_WAIT, AttackedService
from tests.faults.checks.evidence_collection import assert_no_findings
from tests.faults.clients.attack_client import AttackClient
from tests.faults.clients.client_history import ClientHistory
from tests.faults.suite_extent import select_rows
from tests.support.processes.process_host import stop_cleanly
from turnlog.events.model.call_events import AttemptEnded
from turnlog.events.model.turn_events import TurnCompleted, TurnSubmitted
from turnlog.events.subjects import SESSIONS_STREAM, WORKERS_CONSUMER

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
    pytest.mark.slow("processes are attacked and have to recover"),
]

POINTS = {
    "after-append:attempt-started": False,
    "before-append:context-assembled": False,
    "after-token:3": True,
    "before-close": True,
    "after-close": True,
    "before-append:turn-completed": True,
}
"""Where it stops, and whether it can know then what it took."""
SUITE = ("before-append:turn-completed",)


@asynccontextmanager
async def record_acknowledgements(at: AttackedService) -> AsyncGenerator[list[Msg]]:
    """Record all acknowledgements that workers send."""
    messages: list[Msg] = []

    async def hear(message: Msg) -> None:
        messages.append(message)

    nc = at.service.nats.connection.nc
    listening = await nc.subscribe(f"$JS.ACK.{SESSIONS_STREAM}.{WORKERS_CONSUMER}.>", cb=hear)
    try:
        yield messages
    finally:
        await listening.unsubscribe()


def filter_first_delivery(words: list[Msg], place: int) -> list[bytes]:
    """Return what was sent for the first delivery of a turn's event."""
    return [
        message.data for message in words if message.subject.split(".")[4:6] == ["1", str(place)]
    ]


async def find_submitted_place(at: AttackedService, session: str) -> int:
    events = await at.service.list_events(session)
    return next(e.stream_sequence for e in events if isinstance(e.event, TurnSubmitted))


@pytest.mark.promise("P6", "P7", "P8")
@pytest.mark.parametrize(
    ("point", "known"), select_rows(POINTS, SUITE).items(), ids=select_rows(POINTS, SUITE)
)
async def test_superseded_worker_records_its_cost_and_nothing_else(
    attacked: AttackedService,
    client: AttackClient,
    history: ClientHistory,
    point: str,
    *,
    known: bool,
) -> None:
    attacked.set_stop_point("worker", point)
    await client.open_session()
    turn = await client.submit_turn()
    zombie = await attacked.service.wait_for_worker_pid(client.session)
    await client.watch_turn(turn)
    await attacked.service.wait_for_event(client.session, TurnCompleted)
    place = await find_submitted_place(attacked, client.session)
    await asyncio.sleep(2 * ACK_WAIT)
    async with record_acknowledgements(attacked) as words:
        os.kill(zombie, signal.SIGCONT)
        (process,) = (one for one in attacked.list_processes("worker") if one.pid == zombie)
        await stop_cleanly(process)
        await attacked.service.nats.connection.nc.flush()
        assert filter_first_delivery(words, place) == []
    await attacked.start_missing()
    await assert_no_findings(attacked, history)
    ended_of = await attacked.service.list_events_of_type(client.session, AttemptEnded)
    own = [each for each in ended_of if each.attempt == 1][-1]
    assert (own.usage.known != "unknown") == known
