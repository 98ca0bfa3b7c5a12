"""The typed consumer: events and tokens, past then live, resumable."""

from __future__ import annotations

import asyncio

import pytest

from tests.events.sessions import add, grow, take
from turnlog.events.call import Usage
from turnlog.events.codec import write
from turnlog.events.content import Plain, digest_of
from turnlog.events.envelope import Head, Recorded
from turnlog.events.errors import Refused
from turnlog.events.kinds import KnownEvent
from turnlog.events.nats import JetStream, Spoken, Unreadable, subscribe
from turnlog.events.nats.consuming import Item
from turnlog.events.testing import drafts
from turnlog.events.tokens import AttemptAlive, AttemptClosed, AttemptReset, Token, TokenEvent
from turnlog.events.turn import TurnCompleted, TurnExcluded, TurnReleased, TurnSubmitted


async def happen(on: JetStream, tenant: str, after: Head | None, *events: KnownEvent) -> Head:
    first = after.sequence + 1 if after else 1
    await on.log.append(write(tenant, "s", after, drafts(events, first)))
    last = await on.log.last(tenant, "s", leader=True)
    assert last
    assert last.sequence == first + len(events) - 1
    return last.head


def submitted(turn: int) -> TurnSubmitted:
    return TurnSubmitted(turn=turn, text=Plain(text="say something"))


def completed(turn: int, reply: str) -> TurnCompleted:
    return TurnCompleted(turn=turn, call=f"{turn}.1", text=Plain(text=reply), finish="stop")


def words(reply: str, attempt: int = 1) -> list[Token]:
    return [
        Token(call="1.1", attempt=attempt, offset=at, text=reply[at : at + 3])
        for at in range(0, len(reply), 3)
    ]


def closed(reply: str, attempt: int = 1) -> AttemptClosed:
    return AttemptClosed(
        call="1.1",
        attempt=attempt,
        length=len(reply),
        digest=digest_of(reply),
        finish="stop",
        usage=Usage(known="unknown"),
        total=1,
    )


async def say(on: JetStream, tenant: str, turn: int, *said: TokenEvent) -> None:
    for event in said[:-1]:
        await on.tokens.publish(tenant, "s", turn, event)
    assert await on.tokens.close(tenant, "s", turn, said[-1])


def spelt(items: list[Item]) -> list[str]:
    """Return one short word for each item."""
    names: list[str] = []
    for item in items:
        match item:
            case Recorded():
                names.append(item.envelope.type.split(".")[1])
            case Spoken(event=Token(text=text)):
                names.append(text)
            case Spoken(event=event):
                names.append(event.kind)
            case _:
                names.append("?")
    return names


async def test_a_session_is_streamed_from_its_beginning_into_the_present(
    jetstream: JetStream, nats_url: str, fresh_tenant: str
) -> None:
    events = await grow(jetstream.log, fresh_tenant, "s", 5)
    async with subscribe(nats_url, tenant=fresh_tenant, session="s") as stream:
        assert await take(stream, 5) == events
        (new,) = await add(jetstream.log, fresh_tenant, "s", "new", after=events[-1].head)
        assert await take(stream, 1) == [new]


async def test_a_tenant_is_streamed_with_all_its_sessions_and_no_others(
    jetstream: JetStream, nats_url: str, fresh_tenant: str
) -> None:
    events = list(await add(jetstream.log, fresh_tenant, "a", "one"))
    await add(jetstream.log, f"{fresh_tenant}-2", "a", "theirs")
    events += await add(jetstream.log, fresh_tenant, "b", "two")
    async with subscribe(nats_url, tenant=fresh_tenant) as stream:
        assert await take(stream, 2) == events
        (new,) = await add(jetstream.log, fresh_tenant, "c", "three")
        assert await take(stream, 1) == [new]


@pytest.mark.parametrize("session", ["s", None])
async def test_an_item_is_handled_when_the_next_is_asked_for(
    jetstream: JetStream, nats_url: str, fresh_tenant: str, session: str | None
) -> None:
    events = await grow(jetstream.log, fresh_tenant, "s", 3)
    async with subscribe(nats_url, tenant=fresh_tenant, session=session) as stream:
        beginning = stream.cursor
        await take(stream, 2)
        cursor = stream.cursor
    async with subscribe(nats_url, tenant=fresh_tenant, session=session, after=cursor) as stream:
        assert await take(stream, 2) == events[1:]
    async with subscribe(nats_url, tenant=fresh_tenant, session=session, after=beginning) as again:
        assert await take(again, 3) == events


async def test_a_consumer_that_comes_back_again_and_again_misses_and_repeats_nothing(
    jetstream: JetStream, nats_url: str, fresh_tenant: str
) -> None:
    growing = asyncio.create_task(grow(jetstream.log, fresh_tenant, "s", 61))
    cursor: str | None = None
    seen: list[Item] = []
    while len(seen) < 60:
        async with subscribe(nats_url, tenant=fresh_tenant, session="s", after=cursor) as stream:
            *handled, _dropped = await take(stream, 11)
            seen += handled
            cursor = stream.cursor
    assert seen == (await growing)[:60]


async def test_only_the_types_asked_for_come_and_the_cursor_passes_over_the_others(
    jetstream: JetStream, nats_url: str, fresh_tenant: str
) -> None:
    head = await happen(
        jetstream, fresh_tenant, None, submitted(1), completed(1, "yes"), submitted(2)
    )
    async with subscribe(
        nats_url, tenant=fresh_tenant, session="s", types=("turn-completed",)
    ) as stream:
        assert spelt(await take(stream, 1)) == ["turn-completed"]
        head = await happen(jetstream, fresh_tenant, head, completed(2, "no"))
        assert spelt(await take(stream, 1)) == ["turn-completed"]
        assert stream.cursor.split(".")[1] == "3"


async def test_a_reply_is_heard_as_it_is_said_and_then_recorded(
    jetstream: JetStream, nats_url: str, fresh_tenant: str
) -> None:
    head = await happen(jetstream, fresh_tenant, None, submitted(1))
    async with subscribe(nats_url, tenant=fresh_tenant, session="s", tokens=True) as stream:
        assert spelt(await take(stream, 1)) == ["turn-submitted"]
        alive = AttemptAlive(call="1.1", attempt=1)
        await say(jetstream, fresh_tenant, 1, alive, *words("heard once"), closed("heard once"))
        assert spelt(await take(stream, 4)) == ["hea", "rd ", "onc", "e"]
        head = await happen(jetstream, fresh_tenant, head, completed(1, "heard once"))
        assert spelt(await take(stream, 2)) == ["attempt-closed", "turn-completed"]
        await happen(jetstream, fresh_tenant, head, submitted(2))
        await say(jetstream, fresh_tenant, 2, *words("again"))
        assert spelt(await take(stream, 3)) == ["turn-submitted", "aga", "in"]


async def test_an_attempt_given_up_is_announced_and_heard_no_more(
    jetstream: JetStream, nats_url: str, fresh_tenant: str
) -> None:
    await happen(jetstream, fresh_tenant, None, submitted(1))
    async with subscribe(nats_url, tenant=fresh_tenant, session="s", tokens=True) as stream:
        given_up = words("never ends")
        reset = AttemptReset(call="1.1", attempt=2)
        late = [*given_up[2:], *given_up]
        await say(
            jetstream, fresh_tenant, 1, *given_up[:2], reset, *late, *words("ends", attempt=2)
        )
        assert spelt(await take(stream, 6)) == [
            "turn-submitted", "nev", "er ", "attempt-reset", "end", "s"
        ]  # fmt: skip


async def test_words_of_turns_that_are_over_are_not_said_again(
    jetstream: JetStream, nats_url: str, fresh_tenant: str
) -> None:
    head = await happen(jetstream, fresh_tenant, None, submitted(1))
    await say(jetstream, fresh_tenant, 1, *words("done"))
    head = await happen(jetstream, fresh_tenant, head, completed(1, "done"), TurnReleased(turn=2))
    await say(jetstream, fresh_tenant, 2, *words("now"))
    async with subscribe(nats_url, tenant=fresh_tenant, session="s", tokens=True) as stream:
        assert spelt(await take(stream, 4)) == [
            "turn-submitted", "turn-completed", "turn-released", "now"
        ]  # fmt: skip


async def test_what_is_heard_over_many_cursors_is_what_was_recorded(
    jetstream: JetStream, nats_url: str, fresh_tenant: str
) -> None:
    reply = "a reply of some length, heard in pieces by one who keeps leaving " * 4

    head = await happen(jetstream, fresh_tenant, None, submitted(1))
    listening = asyncio.Event()

    async def answer() -> None:
        await listening.wait()
        await say(jetstream, fresh_tenant, 1, *words(reply), closed(reply))
        after_it = [TurnExcluded(turn=1)] * 10
        await happen(jetstream, fresh_tenant, head, completed(1, reply), *after_it)

    answering = asyncio.create_task(answer())
    cursor: str | None = None
    handled: list[Item] = []
    while "turn-completed" not in spelt(handled):
        async with subscribe(
            nats_url, tenant=fresh_tenant, session="s", tokens=True, after=cursor
        ) as stream:
            listening.set()
            *done, _at_hand = await take(stream, 10)
            handled += done
            cursor = stream.cursor
    await answering
    said = [item.event for item in handled if isinstance(item, Spoken)]
    assert "".join(word.text for word in said if isinstance(word, Token)) == reply


async def test_words_that_came_while_nobody_listened_are_heard_before_the_recorded_reply(
    jetstream: JetStream, nats_url: str, fresh_tenant: str
) -> None:
    head = await happen(jetstream, fresh_tenant, None, submitted(1))
    async with subscribe(nats_url, tenant=fresh_tenant, session="s", tokens=True) as stream:
        await say(jetstream, fresh_tenant, 1, *words("one two"))
        assert spelt(await take(stream, 3)) == ["turn-submitted", "one", " tw"]
        cursor = stream.cursor
    async with subscribe(
        nats_url, tenant=fresh_tenant, session="s", tokens=True, after=cursor
    ) as stream:
        await say(jetstream, fresh_tenant, 1, closed("one two"))
        await happen(jetstream, fresh_tenant, head, completed(1, "one two"))
        assert spelt(await take(stream, 4)) == [" tw", "o", "attempt-closed", "turn-completed"]


async def test_words_lost_on_the_way_leave_no_hole_and_the_reply_is_recorded(
    jetstream: JetStream, nats_url: str, fresh_tenant: str
) -> None:
    head = await happen(jetstream, fresh_tenant, None, submitted(1))
    async with subscribe(nats_url, tenant=fresh_tenant, session="s", tokens=True) as stream:
        first, _lost, last = words("one two")
        await say(jetstream, fresh_tenant, 1, first, last, closed("one two"))
        await happen(jetstream, fresh_tenant, head, completed(1, "one two"))
        assert spelt(await take(stream, 3)) == ["turn-submitted", "one", "turn-completed"]


async def test_junk_in_a_tenant_is_handed_on_and_stops_nothing(
    jetstream: JetStream, nats_url: str, fresh_tenant: str
) -> None:
    js = jetstream.connection.nc.jetstream()
    await js.publish(f"session.{fresh_tenant}.bad.turn", b"junk")
    (fine,) = await add(jetstream.log, fresh_tenant, "s", "one")
    async with subscribe(nats_url, tenant=fresh_tenant) as stream:
        junk, event = await take(stream, 2)
        assert isinstance(junk, Unreadable)
        assert junk.raw.stored == b"junk"
        assert event == fine
    async with subscribe(nats_url, tenant=fresh_tenant, types=("turn-submitted",)) as stream:
        assert await take(stream, 1) == [fine]


@pytest.mark.parametrize(
    "garbage", ["", "0", "garbage", "12345678", "12345678.1", "{}", "12345678.-1.0.0.0", "x" * 999]
)
@pytest.mark.parametrize("session", ["s", None])
async def test_a_cursor_that_is_none_is_refused(
    nats_url: str, fresh_tenant: str, garbage: str, session: str | None
) -> None:
    with pytest.raises(Refused) as refusal:
        async with subscribe(nats_url, tenant=fresh_tenant, session=session, after=garbage):
            pass
    assert refusal.value.field == "after"
    assert refusal.value.fix


async def test_a_cursor_from_elsewhere_or_from_the_future_is_refused(
    jetstream: JetStream, nats_url: str, fresh_tenant: str
) -> None:
    await add(jetstream.log, fresh_tenant, "s", "one")
    cursors: dict[str | None, str] = {}
    for session in ("s", None):
        async with subscribe(nats_url, tenant=fresh_tenant, session=session) as stream:
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
            async with subscribe(nats_url, tenant=fresh_tenant, session=session, after=foreign):
                pass


async def test_a_type_nobody_knows_is_refused_with_those_there_are(nats_url: str) -> None:
    with pytest.raises(Refused, match="turn-complete") as refusal:
        async with subscribe(nats_url, types=("turn-complete",)):
            pass
    assert "turn-completed" in refusal.value.fix


async def test_tokens_without_a_session_are_refused(nats_url: str) -> None:
    with pytest.raises(Refused) as refusal:
        async with subscribe(nats_url, tokens=True):
            pass
    assert refusal.value.field == "session"
