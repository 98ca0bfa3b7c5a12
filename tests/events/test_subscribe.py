"""The typed consumer: events and tokens, past then live, resumable."""

from __future__ import annotations

import asyncio

import pytest

from tests.events.log_sessions import append_one_by_one, append_texts, take_items
from turnlog.events.codec import encode_batch
from turnlog.events.content import PlainText, compute_digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.jetstream.event_consumer import (
    ConsumerItem,
    UndecodableItem,
    subscribe_events,
)
from turnlog.events.jetstream.jetstream_client import JetStreamClient
from turnlog.events.model.attempt_figures import TokenUsage
from turnlog.events.model.call_events import AttemptStarted
from turnlog.events.model.turn_events import (
    TurnCompleted,
    TurnExcluded,
    TurnReleased,
    TurnSubmitted,
)
from turnlog.events.registry import KnownEvent
from turnlog.events.store.ports import TurnTokenEvent
from turnlog.events.testing import make_drafts
from turnlog.events.tokens import AttemptAlive, AttemptClosed, AttemptReset, Token, TokenEvent


async def append_events(
    on: JetStreamClient, tenant: str, after: ChainHead | None, *events: KnownEvent
) -> ChainHead:
    first = after.sequence + 1 if after else 1
    await on.log.append_batch(encode_batch(tenant, "s", after, make_drafts(events, first)))
    last = await on.log.read_last_event(tenant, "s", leader=True)
    assert last
    assert last.sequence == first + len(events) - 1
    return last.head


def build_submitted(turn: int) -> TurnSubmitted:
    return TurnSubmitted(turn=turn, text=PlainText(text="say something"))


def build_completed(turn: int, reply: str) -> TurnCompleted:
    return TurnCompleted(turn=turn, call=f"{turn}.1", text=PlainText(text=reply), finish="stop")


def build_tokens(reply: str, attempt: int = 1) -> list[Token]:
    return [
        Token(call="1.1", attempt=attempt, offset=at, text=reply[at : at + 3])
        for at in range(0, len(reply), 3)
    ]


def build_closed(reply: str, attempt: int = 1) -> AttemptClosed:
    return AttemptClosed(
        call="1.1",
        attempt=attempt,
        length=len(reply),
        digest=compute_digest(reply),
        finish="stop",
        usage=TokenUsage(known="unknown"),
        total=1,
    )


async def publish_tokens(on: JetStreamClient, tenant: str, turn: int, *events: TokenEvent) -> None:
    for event in events[:-1]:
        await on.tokens.publish_token(tenant, "s", turn, event)
    assert await on.tokens.publish_and_confirm(tenant, "s", turn, events[-1])


def describe_items(items: list[ConsumerItem]) -> list[str]:
    """One short word an item."""
    names: list[str] = []
    for item in items:
        match item:
            case RecordedEvent():
                names.append(item.envelope.type.split(".")[1])
            case TurnTokenEvent(event=Token(text=text)):
                names.append(text)
            case TurnTokenEvent(event=event):
                names.append(event.kind)
            case _:
                names.append("?")
    return names


async def test_session_is_streamed_from_its_beginning_and_continues_live(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    events = await append_one_by_one(jetstream.log, fresh_tenant, "s", 5)
    async with subscribe_events(nats_url, tenant=fresh_tenant, session="s") as stream:
        assert await take_items(stream, 5) == events
        (new,) = await append_texts(jetstream.log, fresh_tenant, "s", "new", after=events[-1].head)
        assert await take_items(stream, 1) == [new]


async def test_tenant_stream_contains_all_its_sessions_and_no_others(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    events = list(await append_texts(jetstream.log, fresh_tenant, "a", "one"))
    await append_texts(jetstream.log, f"{fresh_tenant}-2", "a", "theirs")
    events += await append_texts(jetstream.log, fresh_tenant, "b", "two")
    async with subscribe_events(nats_url, tenant=fresh_tenant) as stream:
        assert await take_items(stream, 2) == events
        (new,) = await append_texts(jetstream.log, fresh_tenant, "c", "three")
        assert await take_items(stream, 1) == [new]


@pytest.mark.parametrize("session", ["s", None])
async def test_cursor_within_the_loop_belongs_to_the_current_item(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str, session: str | None
) -> None:
    events = await append_one_by_one(jetstream.log, fresh_tenant, "s", 3)
    async with subscribe_events(nats_url, tenant=fresh_tenant, session=session) as stream:
        beginning = stream.cursor
        await take_items(stream, 2)
        cursor = stream.cursor
    async with subscribe_events(
        nats_url, tenant=fresh_tenant, session=session, after=cursor
    ) as stream:
        assert await take_items(stream, 1) == events[2:]
    async with subscribe_events(
        nats_url, tenant=fresh_tenant, session=session, after=beginning
    ) as again:
        assert await take_items(again, 3) == events


async def test_consumer_that_reconnects_repeatedly_misses_and_repeats_nothing(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    growing = asyncio.create_task(append_one_by_one(jetstream.log, fresh_tenant, "s", 61))
    cursor: str | None = None
    seen: list[ConsumerItem] = []
    while len(seen) < 60:
        async with subscribe_events(
            nats_url, tenant=fresh_tenant, session="s", after=cursor
        ) as stream:
            seen += await take_items(stream, 10)
            cursor = stream.cursor
    assert seen == (await growing)[:60]


async def test_only_requested_types_arrive_and_the_cursor_skips_the_others(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    head = await append_events(
        jetstream,
        fresh_tenant,
        None,
        build_submitted(1),
        build_completed(1, "yes"),
        build_submitted(2),
    )
    async with subscribe_events(
        nats_url, tenant=fresh_tenant, session="s", types=("turn-completed",)
    ) as stream:
        assert describe_items(await take_items(stream, 1)) == ["turn-completed"]
        head = await append_events(jetstream, fresh_tenant, head, build_completed(2, "no"))
        assert stream.cursor.split(".")[1] == "2"
        assert describe_items(await take_items(stream, 1)) == ["turn-completed"]
        assert stream.cursor.split(".")[1] == "4"


async def test_reply_arrives_as_tokens_and_then_as_recorded_event(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    head = await append_events(jetstream, fresh_tenant, None, build_submitted(1))
    async with subscribe_events(nats_url, tenant=fresh_tenant, session="s", tokens=True) as stream:
        assert describe_items(await take_items(stream, 1)) == ["turn-submitted"]
        alive = AttemptAlive(call="1.1", attempt=1)
        await publish_tokens(
            jetstream,
            fresh_tenant,
            1,
            alive,
            *build_tokens("heard once"),
            build_closed("heard once"),
        )
        assert describe_items(await take_items(stream, 4)) == ["hea", "rd ", "onc", "e"]
        head = await append_events(jetstream, fresh_tenant, head, build_completed(1, "heard once"))
        assert describe_items(await take_items(stream, 2)) == ["attempt-closed", "turn-completed"]
        await append_events(jetstream, fresh_tenant, head, build_submitted(2))
        await publish_tokens(jetstream, fresh_tenant, 2, *build_tokens("again"))
        assert describe_items(await take_items(stream, 3)) == ["turn-submitted", "aga", "in"]


async def test_abandoned_attempt_is_announced_and_its_later_tokens_are_ignored(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    await append_events(jetstream, fresh_tenant, None, build_submitted(1))
    async with subscribe_events(nats_url, tenant=fresh_tenant, session="s", tokens=True) as stream:
        given_up = build_tokens("never ends")
        reset = AttemptReset(call="1.1", attempt=2)
        late = [*given_up[2:], *given_up]
        await publish_tokens(
            jetstream,
            fresh_tenant,
            1,
            *given_up[:2],
            reset,
            *late,
            *build_tokens("ends", attempt=2),
        )
        assert describe_items(await take_items(stream, 6)) == [
            "turn-submitted", "nev", "er ", "attempt-reset", "end", "s"
        ]  # fmt: skip


async def test_tokens_of_an_attempt_are_ignored_after_any_event_of_a_later_attempt(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    await append_events(jetstream, fresh_tenant, None, build_submitted(1))
    async with subscribe_events(nats_url, tenant=fresh_tenant, session="s", tokens=True) as stream:
        abandoned = build_tokens("never ends")
        await publish_tokens(
            jetstream,
            fresh_tenant,
            1,
            *abandoned[:2],
            AttemptAlive(call="1.1", attempt=2),
            *abandoned[2:],
            *build_tokens("ends", attempt=2),
        )
        assert describe_items(await take_items(stream, 6)) == [
            "turn-submitted", "nev", "er ", "attempt-reset", "end", "s"
        ]  # fmt: skip


async def test_attempt_recorded_on_the_log_ends_the_previous_one(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    head = await append_events(jetstream, fresh_tenant, None, build_submitted(1))
    async with subscribe_events(nats_url, tenant=fresh_tenant, session="s", tokens=True) as stream:
        abandoned = build_tokens("never ends")
        await publish_tokens(jetstream, fresh_tenant, 1, *abandoned[:1])
        assert describe_items(await take_items(stream, 2)) == ["turn-submitted", "nev"]
        started = AttemptStarted(turn=1, call="1.1", attempt=2, worker="w")
        await append_events(jetstream, fresh_tenant, head, started)
        assert describe_items(await take_items(stream, 2)) == ["attempt-reset", "attempt-started"]
        reset = AttemptReset(call="1.1", attempt=2)
        again = build_tokens("ends", attempt=2)
        await publish_tokens(jetstream, fresh_tenant, 1, *abandoned[1:], reset, *again)
        assert describe_items(await take_items(stream, 2)) == ["end", "s"]


async def test_partly_received_token_continues_where_it_stopped(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    await append_events(jetstream, fresh_tenant, None, build_submitted(1))
    async with subscribe_events(nats_url, tenant=fresh_tenant, session="s", tokens=True) as stream:
        longer = Token(call="1.1", attempt=1, offset=0, text="one two")
        await publish_tokens(jetstream, fresh_tenant, 1, *build_tokens("one"), longer)
        assert describe_items(await take_items(stream, 3)) == ["turn-submitted", "one", " two"]


async def test_tokens_of_ended_turns_are_not_repeated(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    head = await append_events(jetstream, fresh_tenant, None, build_submitted(1))
    await publish_tokens(jetstream, fresh_tenant, 1, *build_tokens("done"))
    head = await append_events(
        jetstream, fresh_tenant, head, build_completed(1, "done"), TurnReleased(turn=2)
    )
    await publish_tokens(jetstream, fresh_tenant, 2, *build_tokens("now"))
    async with subscribe_events(nats_url, tenant=fresh_tenant, session="s", tokens=True) as stream:
        assert describe_items(await take_items(stream, 4)) == [
            "turn-submitted", "turn-completed", "turn-released", "now"
        ]  # fmt: skip


async def test_tokens_received_over_many_cursors_equal_the_recorded_reply(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    reply = "a reply of some length, heard in pieces by one who keeps leaving " * 4

    head = await append_events(jetstream, fresh_tenant, None, build_submitted(1))
    listening = asyncio.Event()

    async def answer() -> None:
        await listening.wait()
        await publish_tokens(jetstream, fresh_tenant, 1, *build_tokens(reply), build_closed(reply))
        after_it = [TurnExcluded(turn=1)] * 10
        await append_events(jetstream, fresh_tenant, head, build_completed(1, reply), *after_it)

    answering = asyncio.create_task(answer())
    cursor: str | None = None
    handled: list[ConsumerItem] = []
    while "turn-completed" not in describe_items(handled):
        async with subscribe_events(
            nats_url, tenant=fresh_tenant, session="s", tokens=True, after=cursor
        ) as stream:
            listening.set()
            handled += await take_items(stream, 10)
            cursor = stream.cursor
    await answering
    token_events = [item.event for item in handled if isinstance(item, TurnTokenEvent)]
    assert "".join(word.text for word in token_events if isinstance(word, Token)) == reply


async def test_tokens_missed_while_disconnected_precede_the_recorded_reply(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    head = await append_events(jetstream, fresh_tenant, None, build_submitted(1))
    async with subscribe_events(nats_url, tenant=fresh_tenant, session="s", tokens=True) as stream:
        await publish_tokens(jetstream, fresh_tenant, 1, *build_tokens("one two"))
        assert describe_items(await take_items(stream, 3)) == ["turn-submitted", "one", " tw"]
        cursor = stream.cursor
    async with subscribe_events(
        nats_url, tenant=fresh_tenant, session="s", tokens=True, after=cursor
    ) as stream:
        await publish_tokens(jetstream, fresh_tenant, 1, build_closed("one two"))
        await append_events(jetstream, fresh_tenant, head, build_completed(1, "one two"))
        assert describe_items(await take_items(stream, 3)) == [
            "o",
            "attempt-closed",
            "turn-completed",
        ]


async def test_tokens_behind_a_lost_one_are_skipped_and_the_recorded_reply_follows(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    head = await append_events(jetstream, fresh_tenant, None, build_submitted(1))
    async with subscribe_events(nats_url, tenant=fresh_tenant, session="s", tokens=True) as stream:
        first, _lost, last = build_tokens("one two")
        await publish_tokens(jetstream, fresh_tenant, 1, first, last, build_closed("one two"))
        await append_events(jetstream, fresh_tenant, head, build_completed(1, "one two"))
        assert describe_items(await take_items(stream, 3)) == [
            "turn-submitted",
            "one",
            "turn-completed",
        ]


async def test_undecodable_event_of_a_tenant_is_passed_on_and_stops_nothing(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    js = jetstream.connection.nc.jetstream()
    await js.publish(f"session.{fresh_tenant}.bad.turn", b"junk")
    (fine,) = await append_texts(jetstream.log, fresh_tenant, "s", "one")
    async with subscribe_events(nats_url, tenant=fresh_tenant) as stream:
        junk, event = await take_items(stream, 2)
        assert isinstance(junk, UndecodableItem)
        assert junk.raw.stored == b"junk"
        assert event == fine
    async with subscribe_events(nats_url, tenant=fresh_tenant, types=("turn-submitted",)) as stream:
        assert await take_items(stream, 1) == [fine]


@pytest.mark.parametrize(
    "garbage", ["", "0", "garbage", "12345678", "12345678.1", "{}", "12345678.-1.0.0.0", "x" * 999]
)
@pytest.mark.parametrize("session", ["s", None])
@pytest.mark.usefixtures("jetstream")  # It creates the streams.
async def test_invalid_cursor_is_refused(
    nats_url: str, fresh_tenant: str, garbage: str, session: str | None
) -> None:
    with pytest.raises(Refused) as refusal:
        async with subscribe_events(nats_url, tenant=fresh_tenant, session=session, after=garbage):
            pass
    assert refusal.value.field == "after"
    assert refusal.value.fix


async def test_cursor_of_another_stream_or_the_future_is_refused(
    jetstream: JetStreamClient, nats_url: str, fresh_tenant: str
) -> None:
    await append_texts(jetstream.log, fresh_tenant, "s", "one")
    cursors: dict[str | None, str] = {}
    for session in ("s", None):
        async with subscribe_events(nats_url, tenant=fresh_tenant, session=session) as stream:
            cursors[session] = stream.cursor
    scope = cursors["s"].split(".")[0]
    everywhere = cursors[None].split(".")[0]
    for session, foreign in (
        ("s", cursors[None]),
        (None, cursors["s"]),
        ("other", cursors["s"]),
        ("s", f"{scope}.2.0.0.0"),
        (None, f"{everywhere}.{10**12}"),
    ):
        with pytest.raises(Refused):
            async with subscribe_events(
                nats_url, tenant=fresh_tenant, session=session, after=foreign
            ):
                pass


async def test_unknown_type_is_refused_with_the_known_ones(nats_url: str) -> None:
    with pytest.raises(Refused, match="turn-complete") as refusal:
        async with subscribe_events(nats_url, types=("turn-complete",)):
            pass
    assert "turn-completed" in refusal.value.fix


async def test_tokens_without_a_session_are_refused(nats_url: str) -> None:
    with pytest.raises(Refused) as refusal:
        async with subscribe_events(nats_url, tokens=True):
            pass
    assert refusal.value.field == "session"
