from __future__ import annotations

import asyncio
from typing import Any

import pytest
from nats.js import api

from tests.events.sessions import add
from turnlog.events.codec import write
from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.ids import BLOBS, LIBRARY, SESSIONS, SNAPSHOTS, TOKENS
from turnlog.events.nats.connection import connected
from turnlog.events.nats.layout import Terms
from turnlog.events.nats.opening import opened
from turnlog.events.nats.provision import provision
from turnlog.events.nats.workers import WORKERS, Handout, provide_workers
from turnlog.events.testing import draft
from turnlog.events.turn import TurnCancelled, TurnReleased
from turnlog.services.runtime.nats_server import NatsServer


async def test_what_is_missing_is_made_and_lasts_as_promised(own_server: NatsServer) -> None:
    async with opened(own_server.url, Terms(tokens_held=60)) as there:
        js = there.connection.nc.jetstream()
        lasting = (SESSIONS, LIBRARY, BLOBS, SNAPSHOTS)
        made = {name: (await js.stream_info(name)).config for name in lasting}
        for config in made.values():
            assert config.storage == api.StorageType.FILE
            assert config.max_age == 0
            assert config.max_msgs == -1
            assert config.max_bytes == -1
            assert config.persist_mode is None
        sessions = made[SESSIONS]
        assert sessions.discard == api.DiscardPolicy.NEW
        assert sessions.allow_atomic
        assert sessions.allow_direct
        assert sessions.republish == api.RePublish("session.>", "live.session.>")
        tokens = (await js.stream_info(TOKENS)).config
        assert tokens.storage == api.StorageType.MEMORY
        assert tokens.max_age == 60


async def test_provisioning_again_changes_nothing(own_server: NatsServer) -> None:
    async with opened(own_server.url, Terms()) as there:
        before = await there.log.identity("t")
        await add(there.log, "t", "s", "one")
        await provision(there.connection, Terms())
        assert await there.log.identity("t") == before
        assert await there.log.last("t", "s")


async def test_many_processes_may_provision_at_once(own_server: NatsServer) -> None:
    async with (
        connected(own_server.url) as one,
        connected(own_server.url) as two,
        connected(own_server.url) as three,
    ):
        await asyncio.gather(*(provision(each, Terms()) for each in (one, two, three)))


@pytest.mark.parametrize(
    ("stream", "setting", "change"),
    [
        (SESSIONS, "discard", {"discard": api.DiscardPolicy.OLD}),
        (SESSIONS, "max_age", {"max_age": 3600}),
        (SESSIONS, "allow_direct", {"allow_direct": False}),
        (SESSIONS, "allow_atomic", {"allow_atomic": False}),
        (SESSIONS, "republish", {"republish": None}),
        (SESSIONS, "max_msg_size", {"max_msg_size": 1000}),
        (BLOBS, "discard", {"discard": api.DiscardPolicy.OLD}),
        (SNAPSHOTS, "max_msgs_per_subject", {"max_msgs_per_subject": 5}),
        (TOKENS, "max_age", {"max_age": 300}),
    ],
)
async def test_a_stream_that_would_break_a_promise_is_refused_by_name(
    own_server: NatsServer, stream: str, setting: str, change: dict[str, Any]
) -> None:
    async with opened(own_server.url, Terms()) as there:
        js = there.connection.nc.jetstream()
        config = (await js.stream_info(stream)).config
        await js.update_stream(config.evolve(**change))
        with pytest.raises(Corrupt) as refusal:
            await provision(there.connection, Terms())
    assert refusal.value.where == f"stream {stream}, {setting}"
    assert "must be" in refusal.value.detail


async def test_a_stream_that_acknowledges_before_it_stores_is_refused(
    own_server: NatsServer,
) -> None:
    async with connected(own_server.url) as connection:
        js = connection.nc.jetstream()
        await js.add_stream(
            name=BLOBS,
            subjects=["blob.>"],
            discard=api.DiscardPolicy.NEW,
            allow_direct=True,
            max_msg_size=1_004_096,
            persist_mode=api.PersistMode.ASYNC,
        )
        with pytest.raises(Corrupt, match="persist_mode"):
            await provision(connection, Terms())


async def test_terms_that_the_server_cannot_meet_are_told(own_server: NatsServer) -> None:
    async with connected(own_server.url) as connection:
        with pytest.raises(Unavailable, match="replicas"):
            await provision(connection, Terms(replicas=3), patience=0.1)


async def test_workers_are_handed_the_two_events_that_tell_of_work(
    own_server: NatsServer,
) -> None:
    async with opened(own_server.url, Terms()) as there:
        (first,) = await add(there.log, "t", "s", "one")
        later = write(
            "t",
            "s",
            first.head,
            [
                draft(TurnCancelled(turn=1, reason="cancelled"), 2),
                draft(TurnReleased(turn=2), 3),
            ],
        )
        await there.log.append(later)
        assert await provide_workers(there.connection, Handout(30, 100))
        js = there.connection.nc.jetstream()
        pulled = await js.pull_subscribe_bind(durable=WORKERS, stream=SESSIONS)
        handed = [(await pulled.fetch(1, timeout=5))[0] for _ in range(2)]
        assert [message.subject for message in handed] == [
            "session.t.s.turn.submitted",
            "session.t.s.turn.released",
        ]
        info = await js.consumer_info(SESSIONS, WORKERS)
        assert info.num_pending == 0
        assert info.config.max_deliver == -1


async def test_a_durable_that_has_gone_is_made_again_from_where_it_had_come(
    own_server: NatsServer,
) -> None:
    async with opened(own_server.url, Terms()) as there:
        handout = Handout(30, 100)
        assert await provide_workers(there.connection, handout)
        assert not await provide_workers(there.connection, handout)
        (first,) = await add(there.log, "t", "a", "one")
        (second,) = await add(there.log, "t", "b", "two")
        js = there.connection.nc.jetstream()
        await js.delete_consumer(SESSIONS, WORKERS)
        assert await provide_workers(there.connection, handout, start=first.stream_sequence + 1)
        pulled = await js.pull_subscribe_bind(durable=WORKERS, stream=SESSIONS)
        (message,) = await pulled.fetch(1, timeout=5)
        assert message.data == second.stored


async def test_how_turns_are_handed_out_may_change_and_keeps_its_place(
    own_server: NatsServer,
) -> None:
    async with opened(own_server.url, Terms()) as there:
        await provide_workers(there.connection, Handout(30, 100))
        await add(there.log, "t", "a", "one")
        js = there.connection.nc.jetstream()
        pulled = await js.pull_subscribe_bind(durable=WORKERS, stream=SESSIONS)
        (message,) = await pulled.fetch(1, timeout=5)
        await message.ack_sync()
        assert not await provide_workers(there.connection, Handout(5, 7))
        info = await js.consumer_info(SESSIONS, WORKERS)
        assert (info.config.ack_wait, info.config.max_ack_pending) == (5, 7)
        assert info.ack_floor
        assert info.ack_floor.consumer_seq == 1


@pytest.mark.parametrize(
    ("setting", "change"),
    [
        ("max_deliver", {"max_deliver": 3}),
        ("filter_subjects", {"filter_subjects": ["session.*.*.turn.submitted"]}),
    ],
)
async def test_a_durable_that_would_lose_turns_is_refused_by_name(
    own_server: NatsServer, setting: str, change: dict[str, Any]
) -> None:
    async with opened(own_server.url, Terms()) as there:
        await provide_workers(there.connection, Handout(30, 100))
        js = there.connection.nc.jetstream()
        config = (await js.consumer_info(SESSIONS, WORKERS)).config
        await js.add_consumer(SESSIONS, config.evolve(**change))
        with pytest.raises(Corrupt) as refusal:
            await provide_workers(there.connection, Handout(30, 100))
    assert refusal.value.where == f"consumer {WORKERS}, {setting}"
