from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

from tests.events.conftest import ContractStore
from tests.events.log_sessions import take_items
from turnlog.events.async_tasks import stream_watch
from turnlog.events.content import compute_digest
from turnlog.events.jetstream.jetstream_client import JetStreamClient, build_client
from turnlog.events.jetstream.nats_connection import NatsConnection, open_connection
from turnlog.events.jetstream.stream_setup import (
    StreamOptions,
    provision_lost_streams,
    provision_streams,
)
from turnlog.events.model.attempt_figures import TokenUsage
from turnlog.events.store.memory_log import MemoryTokenStream
from turnlog.events.store.ports import TokenStream
from turnlog.events.tokens import AttemptClosed, Token, TokenEvent
from turnlog.services.platform.nats_server import NatsServer


@asynccontextmanager
async def watch_tokens(
    tokens: TokenStream, tenant: str
) -> AsyncGenerator[AsyncGenerator[TokenEvent]]:
    wake = asyncio.Event()
    async with (
        tokens.open_turn_watch(tenant, "s", 1, wake) as watch,
        aclosing(stream_watch(wake, watch)) as events,
    ):
        yield events


def build_tokens(count: int, start: int = 0) -> list[TokenEvent]:
    return [
        Token(call="1.1", attempt=1, offset=n * 4, text="word") for n in range(start, start + count)
    ]


def build_closed(text: str) -> AttemptClosed:
    return AttemptClosed(
        call="1.1",
        attempt=1,
        length=len(text),
        digest=compute_digest(text),
        finish="stop",
        usage=TokenUsage(known="reported", input_tokens=1, output_tokens=2),
        total=10,
    )


async def publish_tokens(
    store: ContractStore | JetStreamClient, tenant: str, events: list[TokenEvent]
) -> None:
    for event in events:
        await store.tokens.publish_token(tenant, "s", 1, event)


async def test_tokens_are_stored_in_order_with_their_arrival_time(
    store: ContractStore, fresh_tenant: str
) -> None:
    await publish_tokens(store, fresh_tenant, build_tokens(5))
    assert await store.tokens.publish_and_confirm(fresh_tenant, "s", 1, build_closed("word" * 5))
    stored = await store.tokens.read_token_events(fresh_tenant, "s", 1)
    assert [stamped.event for stamped in stored] == [*build_tokens(5), build_closed("word" * 5)]
    assert [stamped.at for stamped in stored] == sorted(stamped.at for stamped in stored)


async def test_more_tokens_than_fit_one_answer_are_read_completely(
    store: ContractStore, fresh_tenant: str
) -> None:
    await publish_tokens(store, fresh_tenant, build_tokens(2_500))
    assert await store.tokens.publish_and_confirm(
        fresh_tenant, "s", 1, build_closed("word" * 2_500)
    )
    stored = await store.tokens.read_token_events(fresh_tenant, "s", 1)
    assert [stamped.event for stamped in stored[:-1]] == build_tokens(2_500)


async def test_turn_without_tokens_is_empty(store: ContractStore, fresh_tenant: str) -> None:
    assert await store.tokens.read_token_events(fresh_tenant, "s", 1) == ()
    assert await store.tokens.measure_silence(fresh_tenant, "s", 1) is None


async def test_silence_is_measured_from_the_last_token_by_the_clock_of_the_store(
    store: ContractStore, fresh_tenant: str
) -> None:
    await publish_tokens(store, fresh_tenant, build_tokens(1))
    assert await store.tokens.publish_and_confirm(fresh_tenant, "s", 1, build_closed("word"))
    first = await store.tokens.measure_silence(fresh_tenant, "s", 1)
    second = await store.tokens.measure_silence(fresh_tenant, "s", 1)
    assert first is not None
    assert second is not None
    assert 0 <= first <= second < 60


async def test_watcher_receives_stored_and_new_tokens(
    store: ContractStore, fresh_tenant: str
) -> None:
    await publish_tokens(store, fresh_tenant, build_tokens(50))
    async with watch_tokens(store.tokens, fresh_tenant) as watched:
        speaking = asyncio.create_task(
            publish_tokens(store, fresh_tenant, build_tokens(200, start=50))
        )
        assert await take_items(watched, 250) == build_tokens(250)
        await speaking


async def test_watcher_of_one_turn_receives_no_other_turn(
    store: ContractStore, fresh_tenant: str
) -> None:
    async with watch_tokens(store.tokens, fresh_tenant) as watched:
        await store.tokens.publish_token(fresh_tenant, "s", 2, build_tokens(1)[0])
        await store.tokens.publish_token(fresh_tenant, "s", 1, build_closed(""))
        assert await take_items(watched, 1) == [build_closed("")]


async def test_slow_watcher_misses_nothing(store: ContractStore, fresh_tenant: str) -> None:
    await publish_tokens(store, fresh_tenant, build_tokens(1))
    async with watch_tokens(store.tokens, fresh_tenant) as watched:
        assert await take_items(watched, 1) == build_tokens(1)
        rest = build_tokens(6_000, start=1)  # more than a reader is given room for
        await publish_tokens(store, fresh_tenant, rest)
        assert await store.tokens.publish_and_confirm(fresh_tenant, "s", 1, build_closed(""))
        assert await take_items(watched, 1_000) == rest[:1_000]
        assert await store.tokens.publish_and_confirm(fresh_tenant, "s", 1, build_closed("again"))
        assert await take_items(watched, 5_002) == [
            *rest[1_000:],
            build_closed(""),
            build_closed("again"),
        ]


async def test_token_of_a_later_release_is_skipped(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    subject = f"tokens.{fresh_tenant}.s.1"
    await jetstream.connection.nc.publish(subject, b'{"kind":"thought","text":"hm"}')
    await jetstream.connection.nc.publish(subject, b"not json")
    await publish_tokens(jetstream, fresh_tenant, build_tokens(1))
    async with watch_tokens(jetstream.tokens, fresh_tenant) as watched:
        assert await take_items(watched, 1) == build_tokens(1)


async def test_watcher_continues_after_tokens_are_lost_from_memory() -> None:
    lost = MemoryTokenStream()
    await lost.publish_token("t", "s", 1, build_tokens(1)[0])
    async with watch_tokens(lost, "t") as watched:
        assert await take_items(watched, 1) == build_tokens(1)
        lost.clear_all()
        assert await lost.read_token_events("t", "s", 1) == ()
        await lost.publish_token("t", "s", 1, build_closed(""))
        assert await take_items(watched, 1) == [build_closed("")]


async def test_without_a_stream_publishing_fails_silently_and_confirmation_returns_false(
    own_server: NatsServer, fresh_tenant: str
) -> None:
    async with open_connection(own_server.url) as connection:  # there is no stream yet
        on = build_client(connection)
        await publish_tokens(on, fresh_tenant, build_tokens(3))
        assert not await on.tokens.publish_and_confirm(fresh_tenant, "s", 1, build_closed(""))
        assert await on.tokens.read_token_events(fresh_tenant, "s", 1) == ()
        assert await on.tokens.measure_silence(fresh_tenant, "s", 1) is None


async def test_server_restart_discards_tokens_and_a_watcher_receives_later_ones(
    own_server: NatsServer, fresh_tenant: str
) -> None:
    made_again = asyncio.Event()

    async def make_again(connection: NatsConnection) -> None:
        await provision_lost_streams(connection, StreamOptions())
        made_again.set()

    async with open_connection(own_server.url, patience=1, on_reconnect=make_again) as connection:
        await provision_streams(connection, StreamOptions())
        on = build_client(connection)
        await publish_tokens(on, fresh_tenant, build_tokens(10))
        async with watch_tokens(on.tokens, fresh_tenant) as watched:
            assert await take_items(watched, 10) == build_tokens(10)
            await own_server.restart()
            await made_again.wait()
            assert await on.tokens.read_token_events(fresh_tenant, "s", 1) == ()
            assert await on.tokens.measure_silence(fresh_tenant, "s", 1) is None
            await publish_tokens(on, fresh_tenant, build_tokens(3))
            assert await on.tokens.publish_and_confirm(fresh_tenant, "s", 1, build_closed(""))
            assert await take_items(watched, 4) == [*build_tokens(3), build_closed("")]
