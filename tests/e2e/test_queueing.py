"""Turns that wait: for earlier turns, and for a consumer that was deleted."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.processes.rebuild_checks import (
    list_snapshotted_sessions,
    load_and_fold_states,
    read_rows_around_rebuild,
)
from tests.support.processes.turnlog_up import TurnlogUp
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.model.call_events import AttemptEnded
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.events.registry import format_event_name
from turnlog.events.subjects import SESSIONS_STREAM, WORKERS_CONSUMER

pytestmark = pytest.mark.asyncio(loop_scope="session")

MANY = 60


async def list_event_names(up: TurnlogUp, session: str) -> list[str]:
    """Name the events of a session in order."""
    return [
        format_event_name(recorded.envelope.type)
        for recorded in await up.service.list_events(session)
    ]


async def test_sixty_queued_turns_do_not_delay_other_sessions(
    up: TurnlogUp, provider: OpenAIServer
) -> None:
    service, gate = up.service, asyncio.Event()
    last = ModelAnswer(gates={0: asyncio.Event()})
    provider.queue_behaviours(
        ModelAnswer(gates={0: gate}), ModelAnswer(), ModelAnswer(), ModelAnswer(), last
    )
    busy, other = await service.open_session(), await service.open_session()
    exchange_count = len(provider.exchanges)
    await service.submit_turn(busy, "turn 1")
    await provider.wait_for_exchange(exchange_count + 1)
    async with asyncio.TaskGroup() as tasks:
        for number in range(2, MANY + 2):
            tasks.create_task(service.submit_turn(busy, f"turn {number}"))
    consumer = await service.nats.connection.nc.jetstream().consumer_info(
        SESSIONS_STREAM, WORKERS_CONSUMER
    )
    assert (consumer.num_pending, consumer.num_ack_pending) == (0, 1), (
        "workers are told of waiting turns"
    )
    assert (await service.run_turn(other))["status"] == "completed"
    names = await list_event_names(up, busy)
    assert (names.count("turn-queued"), names.count("turn-released")) == (MANY, 0)
    gate.set()
    await provider.wait_for_exchange(exchange_count + 5)
    assert (await list_event_names(up, busy)).count("turn-released") == 3
    await service.http.post(f"/v1/sessions/{busy}/close")
    # The worker's last record of the abandoned turn; after it the session is quiet.
    await service.wait_for_event(
        busy, AttemptEnded, turn=4, such=lambda ended: ended.outcome == "cancelled"
    )


async def test_deleted_consumer_is_recreated_and_no_turn_is_lost_or_repeated(
    up: TurnlogUp, provider: OpenAIServer
) -> None:
    service, gate = up.service, asyncio.Event()
    exchange_count = len(provider.exchanges)
    provider.queue_behaviours(ModelAnswer(gates={1: gate}))
    streaming, waiting = await service.open_session(), await service.open_session()
    await service.submit_turn(streaming)
    await provider.wait_for_exchange(exchange_count + 1)
    await service.nats.connection.nc.jetstream().delete_consumer(SESSIONS_STREAM, WORKERS_CONSUMER)
    assert (await service.run_turn(waiting))["status"] == "completed"
    gate.set()
    await service.wait_for_event(streaming, TurnCompleted)
    assert (await service.run_turn(streaming))["status"] == "completed"
    for session, turns in ((streaming, 2), (waiting, 1)):
        names = await list_event_names(up, session)
        assert (names.count("attempt-started"), names.count("turn-completed")) == (turns, turns)
    assert len(provider.exchanges) == exchange_count + 3


@pytest.mark.slow("processes of the service start, stop and recover")
@pytest.mark.promise("P9")
async def test_rebuilt_rows_and_states_equal_the_live_ones(up: TurnlogUp) -> None:
    database = f"sqlite:///{up.ready_file.with_name('read-models.db')}"
    before, after = await read_rows_around_rebuild(up.service, database)
    assert before["turns"]
    assert before == after
    assert await list_snapshotted_sessions(up.service), "nothing was loaded from a snapshot"
    for loaded, folded in await load_and_fold_states(up.service):
        assert loaded == folded
