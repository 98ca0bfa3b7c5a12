"""The standing subscription: one for all watchers, bounded for each, and honest about losses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

from tests.events.log_sessions import append_one_by_one, append_texts, take_items
from tests.support.servers.fault_proxy import run_fault_proxy
from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.live_feed import (
    CHECK_SECONDS,
    MESSAGE_OVERHEAD_BYTES,
    QUEUE_BYTES,
    RECENT_BYTES,
    LiveFeed,
    find_kept_events,
)
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.jetstream.subscriptions import RawFrame, RawParser
from turnlog.events.tokens import Token


def build_frame(sequence: int, session: str = "s", payload: bytes = b"x") -> RawFrame:
    headers = f"NATS/1.0\r\nNats-Sequence: {sequence}\r\nNats-Last-Sequence: {sequence - 1}\r\n\r\n"
    return RawFrame(f"live.session.t.{session}.turn".encode(), b"", headers.encode(), payload)


def build_feed(decoded: list[int] | None = None) -> LiveFeed[str]:
    """Return a feed that is fed by hand; it notes what it decodes."""

    def decode(stored: bytes, sequence: int) -> str:
        if decoded is not None:
            decoded.append(sequence)
        return stored.decode()

    return LiveFeed(subjects="session.>", key_words=3, decode=decode, is_open=True)


def test_message_is_queued_for_watchers_of_its_subject_and_decoded_once() -> None:
    decoded: list[int] = []
    feed = build_feed(decoded)
    with (
        feed.open_queue("session.t.s", asyncio.Event()) as one,
        feed.open_queue("session.t.s", asyncio.Event()) as two,
        feed.open_queue("session.t.other", asyncio.Event()) as other,
    ):
        feed.add_frame(build_frame(7))
        for queue in (one, two):
            message = queue.take_message()
            assert message
            assert feed.decode_message(message) == "x"
            assert queue.take_message() is None
        assert not other.wake.is_set()
    assert decoded == [7]


def test_message_stored_by_this_process_is_delivered_once_and_not_decoded() -> None:
    decoded: list[int] = []
    feed = build_feed(decoded)
    with feed.open_queue("session.t.s", asyncio.Event()) as queue:
        feed.add_decoded("session.t.s", 7, b"x", "the writer's object")
        feed.add_frame(build_frame(7))
        message = queue.take_message()
        assert message
        assert feed.decode_message(message) == "the writer's object"
        assert queue.take_message() is None
    assert feed.decode_stored(b"x", 7) == "the writer's object"
    assert feed.decode_stored(b"others", 7) == "others"
    assert decoded == [7]


def test_message_being_stored_by_this_process_is_not_decoded_on_arrival() -> None:
    decoded: list[int] = []
    feed = build_feed(decoded)
    with feed.open_queue("session.t.s", asyncio.Event()) as queue:
        with feed.expect_messages({b"x": lambda sequence: f"the writer's at {sequence}"}):
            feed.add_frame(build_frame(7))
        feed.add_decoded("session.t.s", 7, b"x", "the writer's again")
        feed.add_frame(build_frame(8, payload=b"x"))
        first, second = queue.take_message(), queue.take_message()
        assert first
        assert second
        assert feed.decode_message(first) == "the writer's at 7"
        assert feed.decode_message(second) == "x"
        assert queue.take_message() is None
    assert decoded == [8]


def test_late_watcher_gets_the_latest_messages() -> None:
    feed = build_feed()
    many = RECENT_BYTES // (1 + MESSAGE_OVERHEAD_BYTES) + 10
    for sequence in range(1, many + 1):
        feed.add_frame(build_frame(sequence, "s" if sequence % 2 else "other"))
    with feed.open_queue("session.t.s", asyncio.Event()) as queue:
        places = [message.stream_sequence for message in queue.messages]
    assert places == [each for each in range(11, many + 1) if each % 2]


def test_queue_of_a_slow_watcher_is_bounded_and_marked_as_incomplete() -> None:
    feed = build_feed()
    payload = b"x" * 100_000
    fitting = QUEUE_BYTES // (len(payload) + MESSAGE_OVERHEAD_BYTES)
    with (
        feed.open_queue("session.t.s", asyncio.Event()) as slow,
        feed.open_queue("session.t.s", asyncio.Event()) as fast,
    ):
        slow.has_missed = fast.has_missed = False
        for sequence in range(1, fitting + 1):
            feed.add_frame(build_frame(sequence, payload=payload))
            assert fast.take_message()
        assert (len(slow.messages), slow.has_missed) == (fitting, False)
        feed.add_frame(build_frame(fitting + 1, payload=payload))
        assert (len(slow.messages), slow.has_missed) == (0, True)
        assert fast.take_message()
        assert not fast.has_missed


def test_message_without_a_stream_sequence_is_ignored() -> None:
    feed = build_feed()
    with feed.open_queue("session.t.s", asyncio.Event()) as queue:
        for headers in (b"", b"NATS/1.0\r\nNats-Sequence: none\r\n\r\n"):
            feed.add_frame(RawFrame(b"live.session.t.s.turn", b"", headers, b"forged"))
        assert queue.take_message() is None


async def test_watchers_add_no_subscription_and_a_current_one_reads_nothing(
    nats_url: str, fresh_tenant: str
) -> None:
    async with open_client(nats_url, StreamOptions(), tenant=fresh_tenant) as client:
        (first,) = await append_texts(client.log, fresh_tenant, "s", "one")
        async with aclosing(client.log.watch_session(fresh_tenant, "s")) as watched:
            assert await anext(watched) == first
        (event,) = await append_texts(client.log, fresh_tenant, "s", "two", after=first.head)
        sent = client.connection.nc.stats["out_msgs"]
        async with (
            aclosing(client.log.watch_session(fresh_tenant, "s", first.sequence)) as one,
            aclosing(client.log.watch_session(fresh_tenant, "s", first.sequence)) as two,
        ):
            assert [await anext(one), await anext(two)] == [event, event]
            assert client.connection.nc.stats["out_msgs"] == sent
            (third,) = await append_texts(client.log, fresh_tenant, "s", "3", after=event.head)
            assert [await anext(one), await anext(two)] == [third, third]
        assert len(vars(client.connection.nc)["_subs"]) == 2  # answers, and the events


async def test_new_watch_queues_only_the_events_after_its_start(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    wake = asyncio.Event()
    async with jetstream.log.open_session_watch(fresh_tenant, "s", 0, wake):
        events = await append_one_by_one(jetstream.log, fresh_tenant, "s", 40)
    feed = jetstream.log.feed
    key = f"session.{fresh_tenant}.s"
    assert len(feed.list_kept(key)) == len(events)
    for after in (38, 39, 40):
        kept = find_kept_events(feed, key, after)
        assert kept is not None
        assert [feed.decode_message(each) for each in kept] == events[after:]
        async with jetstream.log.open_session_watch(fresh_tenant, "s", after, wake) as watch:
            assert len(watch.queue.messages) == len(kept)
            assert not watch.queue.has_missed


def test_earlier_messages_of_others_precede_those_of_this_process() -> None:
    feed = build_feed()
    feed.add_decoded("session.t.s", 8, b"own", "own")
    feed.add_frame(build_frame(7, payload=b"other's"))
    with feed.open_queue("session.t.s", asyncio.Event()) as queue:
        assert [message.stream_sequence for message in queue.messages] == [7, 8]


@asynccontextmanager
async def lose_frames(reader: JetStreamClient) -> AsyncGenerator[None]:
    """Lose what is republished to a client while the body runs."""
    parser = vars(reader.connection.nc)["_ps"]
    assert isinstance(parser, RawParser)
    handlers = parser.handlers
    kept, lost_frames = dict(handlers), list[RawFrame]()
    for number in handlers:
        handlers[number] = lost_frames.append
    yield
    await reader.connection.nc.flush()
    assert lost_frames
    handlers.update(kept)


async def test_gap_in_a_session_is_read_from_the_log(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    (first,) = await append_texts(jetstream.log, fresh_tenant, "s", "one")
    async with (
        open_client(nats_url, StreamOptions()) as reader,
        aclosing(reader.log.watch_session(fresh_tenant, "s")) as watched,
    ):
        assert await anext(watched) == first
        async with lose_frames(reader):
            lost = await append_one_by_one(
                log=jetstream.log, tenant=fresh_tenant, session="s", count=3, after=first.head
            )
        (last,) = await append_texts(jetstream.log, fresh_tenant, "s", "5", after=lost[-1].head)
        assert await take_items(watched, 4, within=60) == [*lost, last]


async def test_gap_right_after_the_start_of_a_watch_is_read_from_the_log(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    (first,) = await append_texts(jetstream.log, fresh_tenant, "s", "one")
    wake = asyncio.Event()
    async with (
        open_client(nats_url, StreamOptions()) as reader,
        aclosing(reader.log.watch_session(fresh_tenant, "s")) as watched,
    ):
        assert await anext(watched) == first
        (second,) = await append_texts(jetstream.log, fresh_tenant, "s", "2", after=first.head)
        assert await anext(watched) == second
        async with reader.log.open_session_watch(fresh_tenant, "s", 2, wake) as watch:
            assert not watch.queue.has_missed
            async with lose_frames(reader):
                (lost,) = await append_texts(
                    jetstream.log, fresh_tenant, "s", "3", after=second.head
                )
            (last,) = await append_texts(jetstream.log, fresh_tenant, "s", "4", after=lost.head)
            await wake.wait()
            assert [await watch.take_next(), await watch.take_next()] == [lost, last]


async def test_lost_last_message_is_found_by_a_periodic_check(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    (first,) = await append_texts(jetstream.log, fresh_tenant, "s", "one")
    async with (
        open_client(nats_url, StreamOptions()) as reader,
        reader.log.open_session_watch(fresh_tenant, "s", 0, asyncio.Event()) as watch,
    ):
        assert await watch.take_next() == first
        async with lose_frames(reader):
            (last,) = await append_texts(jetstream.log, fresh_tenant, "s", "2", after=first.head)
        watch.checked_at -= CHECK_SECONDS
        assert await watch.take_next() == last


async def test_messages_lost_with_a_connection_are_read_by_every_watcher(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    heads = {
        name: (await append_texts(jetstream.log, fresh_tenant, name, "one"))[0]
        for name in ("a", "b")
    }
    async with (
        run_fault_proxy(nats_url) as proxy,
        open_client(proxy.url, StreamOptions()) as reader,
        aclosing(reader.log.watch_session(fresh_tenant, "a")) as one,
        aclosing(reader.log.watch_session(fresh_tenant, "b")) as two,
    ):
        assert [await anext(one), await anext(two)] == list(heads.values())
        proxy.drop_server_data()
        later = [
            (await append_texts(jetstream.log, fresh_tenant, name, "two", after=head.head))[0]
            for name, head in heads.items()
        ]
        proxy.reset_faults()
        assert [*await take_items(one, 1), *await take_items(two, 1)] == later


async def test_reconnect_marks_every_watch_as_incomplete(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    wake = asyncio.Event()
    async with jetstream.log.open_session_watch(fresh_tenant, "s", 0, wake) as watch:
        assert await watch.take_next() is None
        assert not watch.queue.has_missed
        wake.clear()
        for listener in tuple(jetstream.connection.reconnect_listeners):
            listener()
        assert watch.queue.has_missed
        assert wake.is_set()


async def test_tokens_of_a_new_turn_are_watched_without_reading_stored_ones(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    tokens, token = jetstream.tokens, Token(call="1.1", attempt=1, offset=0, text="word")
    wake = asyncio.Event()
    async with tokens.open_turn_watch(fresh_tenant, "other", 1, wake) as watch:
        assert await watch.take_next() is None
    sent = jetstream.connection.nc.stats["out_msgs"]
    async with tokens.open_turn_watch(fresh_tenant, "s", 1, wake, is_new=True) as watch:
        assert await watch.take_next() is None
        assert jetstream.connection.nc.stats["out_msgs"] == sent
        wake.clear()
        await tokens.publish_token(fresh_tenant, "s", 1, token)
        async with asyncio.timeout(30):
            while (taken := await watch.take_next()) is None:
                await wake.wait()
                wake.clear()
    assert taken == token


async def test_event_of_another_session_does_not_wake_a_watcher(
    jetstream: JetStreamClient, fresh_tenant: str
) -> None:
    wake = asyncio.Event()
    async with jetstream.log.open_session_watch(fresh_tenant, "s", 0, wake) as watch:
        assert await watch.take_next() is None
        wake.clear()
        await append_texts(jetstream.log, fresh_tenant, "s2", "other")
        assert not wake.is_set()
        (event,) = await append_texts(jetstream.log, fresh_tenant, "s", "own")
        assert wake.is_set()
        assert await watch.take_next() == event
