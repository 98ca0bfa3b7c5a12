"""Turns that wait: for earlier turns, and for a consumer that was deleted."""

from __future__ import annotations

import asyncio

import pytest

from tests.parts.everything import Up
from tests.parts.openai_behaviours import Answer
from tests.parts.openai_server import OpenAIServer
from tests.parts.proof import rows_before_and_after, snapshots_held, states_loaded_and_folded
from turnlog.events.ids import SESSIONS_STREAM
from turnlog.events.jetstream.stream_setup import WORKERS_CONSUMER
from turnlog.events.model.call_events import AttemptEnded
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.events.registry import format_event_name

pytestmark = pytest.mark.asyncio(loop_scope="session")

MANY = 60


async def named(up: Up, session: str) -> list[str]:
    """Name the events of a session in order."""
    return [
        format_event_name(recorded.envelope.type) for recorded in await up.service.events(session)
    ]


async def test_sixty_waiting_turns_hold_up_nobody_else(up: Up, provider: OpenAIServer) -> None:
    service, gate = up.service, asyncio.Event()
    last = Answer(gates={0: asyncio.Event()})
    provider.will(Answer(gates={0: gate}), Answer(), Answer(), Answer(), last)
    busy, other = await service.open(), await service.open()
    asked = len(provider.exchanges)
    await service.submit(busy, "turn 1")
    await provider.exchange(asked + 1)
    async with asyncio.TaskGroup() as tasks:
        for number in range(2, MANY + 2):
            tasks.create_task(service.submit(busy, f"turn {number}"))
    told = await service.nats.connection.nc.jetstream().consumer_info(
        SESSIONS_STREAM, WORKERS_CONSUMER
    )
    assert (told.num_pending, told.num_ack_pending) == (0, 1), "workers are told of waiting turns"
    assert (await service.say(other))["status"] == "completed"
    names = await named(up, busy)
    assert (names.count("turn-queued"), names.count("turn-released")) == (MANY, 0)
    gate.set()
    await provider.exchange(asked + 5)
    assert (await named(up, busy)).count("turn-released") == 3
    await service.http.post(f"/v1/sessions/{busy}/close")
    # The worker's last record of the abandoned turn; after it the session is quiet.
    await service.until(busy, AttemptEnded, turn=4, such=lambda ended: ended.outcome == "cancelled")


async def test_a_durable_that_is_deleted_is_made_again_and_no_turn_lost_or_repeated(
    up: Up, provider: OpenAIServer
) -> None:
    service, gate = up.service, asyncio.Event()
    asked = len(provider.exchanges)
    provider.will(Answer(gates={1: gate}))
    streaming, waiting = await service.open(), await service.open()
    await service.submit(streaming)
    await provider.exchange(asked + 1)
    await service.nats.connection.nc.jetstream().delete_consumer(SESSIONS_STREAM, WORKERS_CONSUMER)
    assert (await service.say(waiting))["status"] == "completed"
    gate.set()
    await service.until(streaming, TurnCompleted)
    assert (await service.say(streaming))["status"] == "completed"
    for session, turns in ((streaming, 2), (waiting, 1)):
        names = await named(up, session)
        assert (names.count("attempt-started"), names.count("turn-completed")) == (turns, turns)
    assert len(provider.exchanges) == asked + 3


@pytest.mark.promise("P9")
async def test_rows_and_states_had_again_from_the_log_equal_the_live_ones(up: Up) -> None:
    database = f"sqlite:///{up.ready_file.with_name('read-models.db')}"
    before, after = await rows_before_and_after(up.service, database)
    assert before["turns"]
    assert before == after
    assert await snapshots_held(up.service), "nothing was loaded from a snapshot"
    for loaded, folded in await states_loaded_and_folded(up.service):
        assert loaded == folded
