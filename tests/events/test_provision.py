from __future__ import annotations

import asyncio
from typing import Any

import pytest
from nats.js import api
from nats.js.errors import APIError

from tests.events.log_sessions import append_texts
from turnlog.events.codec import encode_batch
from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.jetstream.jetstream_client import open_client
from turnlog.events.jetstream.nats_connection import open_connection
from turnlog.events.jetstream.stream_setup import StreamOptions, provision_streams
from turnlog.events.jetstream.work_queue import WorkQueueOptions, ensure_work_queue
from turnlog.events.model.turn_events import TurnCancelled, TurnReleased
from turnlog.events.subjects import (
    BLOBS_STREAM,
    KEYS_STREAM,
    RECORD_STREAMS,
    SESSIONS_STREAM,
    SNAPSHOTS_STREAM,
    TOKENS_STREAM,
    WORKERS_CONSUMER,
)
from turnlog.events.testing import make_draft
from turnlog.services.platform.nats_server import NatsServer


async def test_missing_streams_are_created_with_durable_settings(own_server: NatsServer) -> None:
    async with open_client(own_server.url, StreamOptions(token_retention=60)) as client:
        js = client.connection.nc.jetstream()
        lasting = (*RECORD_STREAMS, SNAPSHOTS_STREAM, KEYS_STREAM)
        made = {name: (await js.stream_info(name)).config for name in lasting}
        for config in made.values():
            assert config.storage == api.StorageType.FILE
            assert config.max_age == 0
            assert config.max_msgs == -1
            assert config.max_bytes == -1
            assert config.persist_mode is None
        sessions = made[SESSIONS_STREAM]
        assert sessions.discard == api.DiscardPolicy.NEW
        assert sessions.allow_atomic
        assert sessions.allow_direct
        assert sessions.republish == api.RePublish("session.>", "live.session.>")
        tokens = (await js.stream_info(TOKENS_STREAM)).config
        assert tokens.storage == api.StorageType.MEMORY
        assert tokens.max_age == 60


async def test_repeated_provisioning_changes_nothing(own_server: NatsServer) -> None:
    async with open_client(own_server.url, StreamOptions()) as client:
        before = await client.log.get_identity("t")
        await append_texts(client.log, "t", "s", "one")
        await provision_streams(client.connection, StreamOptions())
        assert await client.log.get_identity("t") == before
        assert await client.log.read_last_event("t", "s")


async def test_several_processes_can_provision_at_once(own_server: NatsServer) -> None:
    async with (
        open_connection(own_server.url) as one,
        open_connection(own_server.url) as two,
        open_connection(own_server.url) as three,
    ):
        await asyncio.gather(
            *(provision_streams(each, StreamOptions()) for each in (one, two, three))
        )


@pytest.mark.parametrize(
    ("stream", "setting", "change"),
    [
        (SESSIONS_STREAM, "discard", {"discard": api.DiscardPolicy.OLD}),
        (SESSIONS_STREAM, "max_age", {"max_age": 3600}),
        (SESSIONS_STREAM, "allow_direct", {"allow_direct": False}),
        (SESSIONS_STREAM, "allow_atomic", {"allow_atomic": False}),
        (SESSIONS_STREAM, "republish", {"republish": None}),
        (SESSIONS_STREAM, "max_msg_size", {"max_msg_size": 1000}),
        (BLOBS_STREAM, "discard", {"discard": api.DiscardPolicy.OLD}),
        (SNAPSHOTS_STREAM, "max_msgs_per_subject", {"max_msgs_per_subject": 5}),
        (TOKENS_STREAM, "max_age", {"max_age": 300}),
    ],
)
async def test_stream_that_would_break_a_promise_is_refused_by_name(
    own_server: NatsServer, stream: str, setting: str, change: dict[str, Any]
) -> None:
    async with open_client(own_server.url, StreamOptions()) as client:
        js = client.connection.nc.jetstream()
        config = (await js.stream_info(stream)).config
        await js.update_stream(config.evolve(**change))
        with pytest.raises(Corrupt) as refusal:
            await provision_streams(client.connection, StreamOptions())
    assert refusal.value.where == f"stream {stream}, {setting}"
    assert "must be" in refusal.value.detail


@pytest.mark.parametrize("stream", RECORD_STREAMS)
async def test_streams_of_the_record_deny_deletes_also_if_an_earlier_release_created_them(
    own_server: NatsServer, stream: str
) -> None:
    async with open_client(own_server.url, StreamOptions()) as there:
        js = there.connection.nc.jetstream()
        config = (await js.stream_info(stream)).config
        await js.delete_stream(stream)
        await js.add_stream(config.evolve(deny_delete=False, deny_purge=False))
        await provision_streams(there.connection, StreamOptions())
        await there.blobs.put_blob("t", b"a text")
        with pytest.raises(APIError, match="message delete not permitted"):
            await js.delete_msg(stream, 1)
        with pytest.raises(APIError, match="stream purge not permitted"):
            await js.purge_stream(stream)
        assert (await js.stream_info(stream)).config == config


async def test_stream_that_acknowledges_before_it_stores_is_refused(
    own_server: NatsServer,
) -> None:
    async with open_connection(own_server.url) as connection:
        js = connection.nc.jetstream()
        await js.add_stream(
            name=BLOBS_STREAM,
            subjects=["blob.>"],
            discard=api.DiscardPolicy.NEW,
            allow_direct=True,
            max_msg_size=1_004_096,
            persist_mode=api.PersistMode.ASYNC,
        )
        with pytest.raises(Corrupt, match="persist_mode"):
            await provision_streams(connection, StreamOptions())


async def test_settings_that_the_server_cannot_meet_raise_unavailable(
    own_server: NatsServer,
) -> None:
    async with open_connection(own_server.url) as connection:
        with pytest.raises(Unavailable, match="replicas"):
            await provision_streams(connection, StreamOptions(replicas=3), patience=0.1)


async def test_work_queue_delivers_only_submitted_and_released_turns(
    own_server: NatsServer,
) -> None:
    async with open_client(own_server.url, StreamOptions()) as client:
        (first,) = await append_texts(client.log, "t", "s", "one")
        later = encode_batch(
            "t",
            "s",
            first.head,
            [
                make_draft(TurnCancelled(turn=1, reason="cancelled"), 2),
                make_draft(TurnReleased(turn=2), 3),
            ],
        )
        await client.log.append_batch(later)
        assert await ensure_work_queue(client.connection, WorkQueueOptions(30, 100))
        js = client.connection.nc.jetstream()
        pulled = await js.pull_subscribe_bind(durable=WORKERS_CONSUMER, stream=SESSIONS_STREAM)
        handed = [(await pulled.fetch(1, timeout=5))[0] for _ in range(2)]
        assert [message.subject for message in handed] == [
            "session.t.s.turn.submitted",
            "session.t.s.turn.released",
        ]
        info = await js.consumer_info(SESSIONS_STREAM, WORKERS_CONSUMER)
        assert info.num_pending == 0
        assert info.config.max_deliver == -1


async def test_deleted_consumer_is_recreated_at_the_given_start(
    own_server: NatsServer,
) -> None:
    async with open_client(own_server.url, StreamOptions()) as client:
        options = WorkQueueOptions(30, 100)
        assert await ensure_work_queue(client.connection, options)
        assert not await ensure_work_queue(client.connection, options)
        (first,) = await append_texts(client.log, "t", "a", "one")
        (second,) = await append_texts(client.log, "t", "b", "two")
        js = client.connection.nc.jetstream()
        await js.delete_consumer(SESSIONS_STREAM, WORKERS_CONSUMER)
        assert await ensure_work_queue(client.connection, options, start=first.stream_sequence + 1)
        pulled = await js.pull_subscribe_bind(durable=WORKERS_CONSUMER, stream=SESSIONS_STREAM)
        (message,) = await pulled.fetch(1, timeout=5)
        assert message.data == second.stored


async def test_changed_work_queue_options_keep_the_position_of_the_consumer(
    own_server: NatsServer,
) -> None:
    async with open_client(own_server.url, StreamOptions()) as client:
        await ensure_work_queue(client.connection, WorkQueueOptions(30, 100))
        await append_texts(client.log, "t", "a", "one")
        js = client.connection.nc.jetstream()
        pulled = await js.pull_subscribe_bind(durable=WORKERS_CONSUMER, stream=SESSIONS_STREAM)
        (message,) = await pulled.fetch(1, timeout=5)
        await message.ack_sync()
        assert not await ensure_work_queue(client.connection, WorkQueueOptions(5, 7))
        info = await js.consumer_info(SESSIONS_STREAM, WORKERS_CONSUMER)
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
async def test_consumer_that_would_lose_turns_is_refused_by_name(
    own_server: NatsServer, setting: str, change: dict[str, Any]
) -> None:
    async with open_client(own_server.url, StreamOptions()) as client:
        await ensure_work_queue(client.connection, WorkQueueOptions(30, 100))
        js = client.connection.nc.jetstream()
        config = (await js.consumer_info(SESSIONS_STREAM, WORKERS_CONSUMER)).config
        await js.add_consumer(SESSIONS_STREAM, config.evolve(**change))
        with pytest.raises(Corrupt) as refusal:
            await ensure_work_queue(client.connection, WorkQueueOptions(30, 100))
    assert refusal.value.where == f"consumer {WORKERS_CONSUMER}, {setting}"
