"""An append through a lost answer, connection or server: stored once, or reported."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.events.log_sessions import (
    append_texts,
    build_batch,
    list_sequences,
    read_past,
    require_appended,
)
from tests.events.stopped_process import stop_process
from tests.support.servers.fault_proxy import run_fault_proxy
from turnlog.events.envelope import ChainHead
from turnlog.events.jetstream.jetstream_client import JetStreamClient, JetStreamLog, open_client
from turnlog.events.jetstream.nats_connection import open_connection
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.store.ports import (
    BatchAlreadyStored,
    BatchAppended,
    BatchConflict,
    EventLog,
    LogUnreachable,
)
from turnlog.services.platform.nats_server import NatsServer


@asynccontextmanager
async def open_impatient_log(url: str, patience: float = 30.0) -> AsyncGenerator[JetStreamLog]:
    """A log that soon takes silence for silence, and tries for a long time."""
    async with open_connection(url, patience=0.5) as connection:
        yield JetStreamLog(connection=connection, patience=patience)


async def wait_for_event(log: EventLog, tenant: str, session: str, sequence: int) -> None:
    """Wait until an event is on the log, as somebody else sees it."""
    async for event in log.watch_session(tenant, session):
        if event.sequence == sequence:
            return


async def test_batch_with_a_lost_answer_is_found_and_not_sent_twice(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    for number, texts in enumerate((["one"], ["one", "two", "three"])):
        session = f"s-{number}"
        batch = build_batch(fresh_tenant, session, None, *texts)
        async with run_fault_proxy(nats_url) as proxy, open_impatient_log(proxy.url) as log:
            proxy.drop_server_data()
            appending = asyncio.create_task(log.append_batch(batch))
            await wait_for_event(jetstream.log, fresh_tenant, session, len(texts))
            proxy.reset_faults()
            outcome = await appending
        assert isinstance(outcome, BatchAlreadyStored)
        assert [event.stored for event in outcome.events] == [m.payload for m in batch.messages]
        assert len(await read_past(jetstream.log, fresh_tenant)) == 1 + 3 * number


async def test_leader_is_queried_before_the_last_try_counts_as_ambiguous(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    async with run_fault_proxy(nats_url) as proxy, open_impatient_log(proxy.url, patience=0) as log:
        assert await log.read_last_event(fresh_tenant, "s") is None
        proxy.drop_next_answer()
        outcome = await log.append_batch(build_batch(fresh_tenant, "s", None, "one"))
    assert isinstance(outcome, BatchAlreadyStored)
    assert await jetstream.log.read_last_event(fresh_tenant, "s") == outcome.events[0]


async def test_append_with_a_lost_answer_is_found_behind_later_events(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    batch = build_batch(fresh_tenant, "s", None, "one")
    async with run_fault_proxy(nats_url) as proxy, open_impatient_log(proxy.url) as log:
        proxy.drop_server_data()
        appending = asyncio.create_task(log.append_batch(batch))
        await wait_for_event(jetstream.log, fresh_tenant, "s", 1)
        first = await jetstream.log.read_last_event(fresh_tenant, "s")
        assert first
        await append_texts(jetstream.log, fresh_tenant, "s", "two", "three", after=first.head)
        proxy.reset_faults()
        assert await appending == BatchAlreadyStored((first,))


async def test_position_taken_by_another_writer_meanwhile_is_a_conflict(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    async with run_fault_proxy(nats_url) as proxy, open_impatient_log(proxy.url) as log:
        proxy.cut_connections()
        proxy.drop_server_data()
        appending = asyncio.create_task(
            log.append_batch(build_batch(fresh_tenant, "s", None, "mine"))
        )
        await append_texts(jetstream.log, fresh_tenant, "s", "theirs")
        proxy.reset_faults()
        assert await appending == BatchConflict(1)


async def test_append_without_a_responder_is_certainly_not_stored(
    own_server: NatsServer, fresh_tenant: str
) -> None:
    async with open_impatient_log(own_server.url, patience=0.5) as log:  # there is no stream yet
        outcome = await log.append_batch(build_batch(fresh_tenant, "s", None, "one"))
    assert isinstance(outcome, LogUnreachable)
    assert not outcome.ambiguous


async def test_append_to_a_hanging_server_is_ambiguous_and_stored_once(
    own_server: NatsServer, fresh_tenant: str
) -> None:
    batch = build_batch(fresh_tenant, "s", None, "one")
    async with (
        open_client(own_server.url, StreamOptions()) as client,
        open_impatient_log(own_server.url, patience=0.5) as log,
    ):
        async with stop_process(own_server.pid):
            outcome = await log.append_batch(batch)
        assert isinstance(outcome, LogUnreachable)
        assert outcome.ambiguous
        await wait_for_event(client.log, fresh_tenant, "s", 1)
        assert isinstance(await log.append_batch(batch), BatchAlreadyStored)
        assert len(await read_past(log, fresh_tenant)) == 1


async def test_writer_survives_server_kills_without_lost_or_duplicate_events(
    own_server: NatsServer, fresh_tenant: str
) -> None:
    sent: list[bytes] = []

    async def write_on(log: EventLog) -> None:
        head: ChainHead | None = None
        for number in range(150):
            batch = build_batch(fresh_tenant, "s", head, *["text"] * (1 + number % 3))
            outcome = await log.append_batch(batch)
            assert isinstance(outcome, BatchAppended | BatchAlreadyStored), outcome
            assert [event.stored for event in outcome.events] == [
                message.payload for message in batch.messages
            ]
            sent.extend(message.payload for message in batch.messages)
            head = outcome.events[-1].head

    async with (
        open_client(own_server.url, StreamOptions()),
        open_impatient_log(own_server.url) as log,
    ):
        writing = asyncio.create_task(write_on(log))
        for count in (30, 160):
            await wait_for_event(log, fresh_tenant, "s", count)
            os.kill(own_server.pid, signal.SIGKILL)
            await own_server.restart()
        await writing
        last = await log.read_last_event(fresh_tenant, "s", leader=True)
        assert last
        events = await log.read_range(fresh_tenant, "s", None, last)
    assert list_sequences(events) == list(range(1, 301))
    assert [event.stored for event in events] == sent


async def test_full_store_refuses_an_append_at_once_and_unambiguously(
    own_server: NatsServer, fresh_tenant: str
) -> None:
    async with open_client(own_server.url, StreamOptions()) as client:
        info = await client.connection.nc.jetstream().stream_info("SESSIONS")
        small = info.config.evolve(max_bytes=20_000)
        await client.connection.nc.jetstream().update_stream(small)
        (first,) = await append_texts(client.log, fresh_tenant, "s", "one")
        large = build_batch(fresh_tenant, "s", first.head, "x" * 30_000)
        outcome = await client.log.append_batch(large)
        assert isinstance(outcome, LogUnreachable)
        assert not outcome.ambiguous
        batch = build_batch(fresh_tenant, "s", first.head, "x" * 15_000, "x" * 15_000)
        assert isinstance(await client.log.append_batch(batch), LogUnreachable)
        await client.connection.nc.jetstream().update_stream(info.config)
        require_appended(await client.log.append_batch(batch))
