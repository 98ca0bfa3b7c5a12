from __future__ import annotations

import asyncio

from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.events.conftest import Store
from tests.events.sessions import take
from turnlog.events.call import Usage
from turnlog.events.content import digest_of
from turnlog.events.log.memory import MemoryTokens
from turnlog.events.nats.arrivals import OVERHEAD, ROOM, Arrivals
from turnlog.events.nats.connection import Connection, connected
from turnlog.events.nats.layout import Terms
from turnlog.events.nats.opening import JetStream, jetstream_on
from turnlog.events.nats.provision import provision, provision_tokens
from turnlog.events.tokens import AttemptClosed, Token, TokenEvent
from turnlog.services.runtime.nats_server import NatsServer


def tokens(count: int, start: int = 0) -> list[TokenEvent]:
    return [
        Token(call="1.1", attempt=1, offset=n * 4, text="word") for n in range(start, start + count)
    ]


def closing(text: str) -> AttemptClosed:
    return AttemptClosed(
        call="1.1",
        attempt=1,
        length=len(text),
        digest=digest_of(text),
        finish="stop",
        usage=Usage(known="reported", input_tokens=1, output_tokens=2),
        total=10,
    )


async def speak(store: Store | JetStream, tenant: str, events: list[TokenEvent]) -> None:
    for event in events:
        await store.tokens.publish(tenant, "s", 1, event)


async def test_tokens_are_held_in_order_with_the_time_they_came(
    store: Store, fresh_tenant: str
) -> None:
    await speak(store, fresh_tenant, tokens(5))
    assert await store.tokens.close(fresh_tenant, "s", 1, closing("word" * 5))
    held = await store.tokens.recorded(fresh_tenant, "s", 1)
    assert [stamped.event for stamped in held] == [*tokens(5), closing("word" * 5)]
    assert [stamped.at for stamped in held] == sorted(stamped.at for stamped in held)


async def test_more_tokens_than_fit_one_answer_come_whole(store: Store, fresh_tenant: str) -> None:
    await speak(store, fresh_tenant, tokens(2_500))
    assert await store.tokens.close(fresh_tenant, "s", 1, closing("word" * 2_500))
    held = await store.tokens.recorded(fresh_tenant, "s", 1)
    assert [stamped.event for stamped in held[:-1]] == tokens(2_500)


async def test_a_turn_nobody_spoke_in_holds_nothing(store: Store, fresh_tenant: str) -> None:
    assert await store.tokens.recorded(fresh_tenant, "s", 1) == ()
    assert await store.tokens.silence(fresh_tenant, "s", 1) is None


async def test_silence_runs_from_the_last_token_by_the_clock_of_the_store(
    store: Store, fresh_tenant: str
) -> None:
    await speak(store, fresh_tenant, tokens(1))
    assert await store.tokens.close(fresh_tenant, "s", 1, closing("word"))
    first = await store.tokens.silence(fresh_tenant, "s", 1)
    second = await store.tokens.silence(fresh_tenant, "s", 1)
    assert first is not None
    assert second is not None
    assert 0 <= first <= second < 60


async def test_a_watcher_gets_what_is_held_and_what_comes(store: Store, fresh_tenant: str) -> None:
    await speak(store, fresh_tenant, tokens(50))
    async with store.tokens.watch(fresh_tenant, "s", 1) as watched:
        speaking = asyncio.create_task(speak(store, fresh_tenant, tokens(200, start=50)))
        assert await take(watched, 250) == tokens(250)
        await speaking


async def test_a_watcher_of_one_turn_hears_no_other(store: Store, fresh_tenant: str) -> None:
    async with store.tokens.watch(fresh_tenant, "s", 1) as watched:
        await store.tokens.publish(fresh_tenant, "s", 2, tokens(1)[0])
        await store.tokens.publish(fresh_tenant, "s", 1, closing(""))
        assert await take(watched, 1) == [closing("")]


async def test_a_slow_watcher_misses_nothing(store: Store, fresh_tenant: str) -> None:
    await speak(store, fresh_tenant, tokens(1))
    async with store.tokens.watch(fresh_tenant, "s", 1) as watched:
        assert await take(watched, 1) == tokens(1)
        rest = tokens(6_000, start=1)  # more than a reader is given room for
        await speak(store, fresh_tenant, rest)
        assert await store.tokens.close(fresh_tenant, "s", 1, closing(""))
        assert await take(watched, 1_000) == rest[:1_000]
        assert await store.tokens.close(fresh_tenant, "s", 1, closing("again"))
        assert await take(watched, 5_002) == [*rest[1_000:], closing(""), closing("again")]


async def test_what_came_and_was_not_read_yet_is_bounded() -> None:
    came = Arrivals()
    for _ in range(100):
        await came.keep(Msg(Client(), data=b"x" * 100_000))
    kept = 0
    while await came.next(within=0) is not None:
        kept += 1
    assert kept == ROOM // (100_000 + OVERHEAD)
    await came.keep(Msg(Client(), data=b"there is room again"))
    assert await came.next(within=0) is not None


async def test_a_token_of_a_later_release_is_passed_over(
    jetstream: JetStream, fresh_tenant: str
) -> None:
    subject = f"tokens.{fresh_tenant}.s.1"
    await jetstream.connection.nc.publish(subject, b'{"kind":"thought","text":"hm"}')
    await jetstream.connection.nc.publish(subject, b"not json")
    await speak(jetstream, fresh_tenant, tokens(1))
    async with jetstream.tokens.watch(fresh_tenant, "s", 1) as watched:
        assert await take(watched, 1) == tokens(1)


async def test_tokens_lost_in_memory_are_gone_and_the_watcher_hears_what_comes_after() -> None:
    lost = MemoryTokens()
    await lost.publish("t", "s", 1, tokens(1)[0])
    async with lost.watch("t", "s", 1) as watched:
        assert await take(watched, 1) == tokens(1)
        lost.forget()
        assert await lost.recorded("t", "s", 1) == ()
        await lost.publish("t", "s", 1, closing(""))
        assert await take(watched, 1) == [closing("")]


async def test_without_a_stream_speaking_fails_quietly_and_closing_says_so(
    own_server: NatsServer, fresh_tenant: str
) -> None:
    async with connected(own_server.url) as connection:  # there is no stream yet
        on = jetstream_on(connection)
        await speak(on, fresh_tenant, tokens(3))
        assert not await on.tokens.close(fresh_tenant, "s", 1, closing(""))
        assert await on.tokens.recorded(fresh_tenant, "s", 1) == ()
        assert await on.tokens.silence(fresh_tenant, "s", 1) is None


async def test_a_server_that_restarts_forgets_tokens_and_a_watcher_hears_those_that_come_after(
    own_server: NatsServer, fresh_tenant: str
) -> None:
    made_again = asyncio.Event()

    async def make_again(connection: Connection) -> None:
        await provision_tokens(connection, Terms())
        made_again.set()

    async with connected(own_server.url, patience=1, on_reconnect=make_again) as connection:
        await provision(connection, Terms())
        on = jetstream_on(connection)
        await speak(on, fresh_tenant, tokens(10))
        async with on.tokens.watch(fresh_tenant, "s", 1) as watched:
            assert await take(watched, 10) == tokens(10)
            await own_server.restart()
            await made_again.wait()
            assert await on.tokens.recorded(fresh_tenant, "s", 1) == ()
            assert await on.tokens.silence(fresh_tenant, "s", 1) is None
            await speak(on, fresh_tenant, tokens(3))
            assert await on.tokens.close(fresh_tenant, "s", 1, closing(""))
            assert await take(watched, 4) == [*tokens(3), closing("")]
