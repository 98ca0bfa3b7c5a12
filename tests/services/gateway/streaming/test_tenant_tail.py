"""Watchers of all sessions share one reading of the log, and each gets every event once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.projections.store.session_histories import StoredSession, build_opened, build_submitted
from turnlog.events.async_tasks import Watch
from turnlog.events.content import PlainText
from turnlog.events.errors import StreamHole, Unavailable
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.events.store.memory_log import MemoryLog, MemoryTokenStream
from turnlog.events.store.ports import PublishedToken, RawEvent
from turnlog.events.tokens import Token
from turnlog.projections.session_views.withheld_events import RedactedTurns
from turnlog.services.use_cases.record import tenant_tail
from turnlog.services.use_cases.record.tenant_tail import (
    StreamedEvent,
    TailEvent,
    TailItem,
    TenantTails,
)


@dataclass
class CountedLog(MemoryLog):
    """A log that counts its live readings, and can hold up the end of the others."""

    live_readings: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    held: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    async def stream_raw_events(
        self, tenant: str | None, after: int, *, live: bool
    ) -> AsyncGenerator[Sequence[RawEvent]]:
        self.live_readings += live
        async with aclosing(super().stream_raw_events(tenant, after, live=live)) as bulks:
            async for bulk in bulks:
                yield bulk
        self.held.set()
        await self.gate.wait()


@dataclass
class WatchedLog:
    log: CountedLog = field(default_factory=CountedLog)
    tokens: MemoryTokenStream = field(default_factory=MemoryTokenStream)
    turns: int = 0

    def __post_init__(self) -> None:
        self.story = StoredSession(log=self.log)
        self.tails = TenantTails(self.log, self.tokens)

    async def append_turns(self, number: int) -> None:
        if not self.story.last_event:
            await self.story.append_events(build_opened())
        for _ in range(number):
            self.turns += 1
            await self.story.append_events(build_submitted(self.turns, f"turn {self.turns}"))

    @property
    def end(self) -> int:
        return len(self.log.stored)

    @asynccontextmanager
    async def watch(self, after: int = 0) -> AsyncGenerator[Watcher]:
        async with aclosing(self.tails.stream_events("t", after)) as bulks:
            yield Watcher(bulks)


@dataclass
class Watcher:
    bulks: AsyncGenerator[Sequence[TailItem]]
    received: list[int] = field(default_factory=list[int])

    async def take_events(self) -> list[TailEvent]:
        return [each for each in await anext(self.bulks) if isinstance(each, TailEvent)]

    async def read_up_to(self, position: int) -> list[int]:
        while position not in self.received:
            self.received += [each.position for each in await self.take_events()]
        return self.received


@pytest.fixture
def watched() -> WatchedLog:
    return WatchedLog()


async def test_watchers_of_all_sessions_share_one_reading(watched: WatchedLog) -> None:
    await watched.append_turns(2)
    async with watched.watch() as one, watched.watch() as two, watched.watch(2) as late:
        for each in (one, two, late):
            await each.read_up_to(3)
        await asyncio.gather(*(each.read_up_to(5) for each in (one, two, late)), append(watched))
        assert (one.received, two.received) == ([1, 2, 3, 4, 5],) * 2
        assert late.received == [3, 4, 5]
    assert watched.log.live_readings == 1


async def append(watched: WatchedLog) -> None:
    """Append two turns once the watchers wait."""
    for _ in range(20):
        await asyncio.sleep(0)
    await watched.append_turns(2)


async def test_events_that_watchers_share_are_the_same_objects(watched: WatchedLog) -> None:
    await watched.append_turns(1)
    async with watched.watch(2) as one, watched.watch(2) as two:
        found, other, _ = await asyncio.gather(anext(one.bulks), anext(two.bulks), append(watched))
    assert all(each is its_twin for each, its_twin in zip(found, other, strict=True))


async def test_watcher_that_does_not_keep_up_gets_what_it_missed_once(
    watched: WatchedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant_tail, "WAITING_BYTES", 2_000)
    await watched.append_turns(1)
    async with watched.watch() as slow, watched.watch() as quick:
        await slow.read_up_to(2)
        await asyncio.gather(quick.read_up_to(4), slow.read_up_to(3), append(watched))
        for _ in range(30):
            await asyncio.gather(quick.read_up_to(watched.end + 1), watched.append_turns(1))
        assert await slow.read_up_to(watched.end) == list(range(1, watched.end + 1))
        assert quick.received == slow.received


@pytest.mark.parametrize("after", range(0, 12, 3))
async def test_watcher_that_begins_while_events_come_gets_each_once(
    watched: WatchedLog, after: int
) -> None:
    await watched.append_turns(11)
    async with watched.watch() as one:
        writing = asyncio.create_task(watched.append_turns(40))
        await one.read_up_to(15)
        async with watched.watch(after) as late:
            expected = list(range(after + 1, 53))
            assert await late.read_up_to(52) == expected
        assert await one.read_up_to(52) == list(range(1, 53))
        await writing


async def test_watcher_gets_once_what_comes_before_it_follows(watched: WatchedLog) -> None:
    await watched.append_turns(1)
    async with watched.watch() as one, watched.watch(2) as late:
        await asyncio.gather(one.read_up_to(4), append(watched))
        watched.log.gate.clear()
        watched.log.held.clear()
        reading = asyncio.create_task(late.read_up_to(7))
        await watched.log.held.wait()
        await asyncio.gather(one.read_up_to(5), watched.append_turns(1))
        watched.log.gate.set()
        # It is in what the late one reads, and then in what is passed on.
        await watched.append_turns(1)
        await one.read_up_to(6)
        await watched.append_turns(1)
        assert await reading == [3, 4, 5, 6, 7]


async def test_loss_of_an_event_reaches_every_watcher(watched: WatchedLog) -> None:
    await watched.append_turns(1)
    async with watched.watch() as one, watched.watch() as two:
        await asyncio.gather(one.read_up_to(4), two.read_up_to(4), append(watched))

        await watched.append_turns(2)
        watched.log.stored[5] = None
        for each in (one, two):
            assert await each.read_up_to(5) == [1, 2, 3, 4, 5]
            with pytest.raises(StreamHole):
                await each.read_up_to(6)
    async with watched.watch(5) as late:
        with pytest.raises(StreamHole):
            await late.read_up_to(6)


@dataclass
class DeafTokenStream(MemoryTokenStream):
    """One that cannot be subscribed to at first."""

    refusals: int = 1

    @asynccontextmanager
    async def open_tenant_watch(
        self, tenant: str, wake: asyncio.Event
    ) -> AsyncGenerator[Watch[PublishedToken]]:
        if self.refusals:
            self.refusals -= 1
            raise Unavailable("nats", "no subscription")
        async with super().open_tenant_watch(tenant, wake) as watch:
            yield watch


async def test_tokens_come_after_a_subscription_that_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tenant_tail, "RETRY_SECONDS", 0.01)
    watched = WatchedLog(tokens=DeafTokenStream())
    await watched.append_turns(1)
    token = Token(call="1.1", attempt=1, offset=0, text="heard")
    async with aclosing(watched.tails.stream_events("t", 2, has_tokens=True)) as bulks:
        reading = asyncio.ensure_future(anext(bulks))
        while not reading.done():
            await watched.tokens.publish_token("t", "s", 1, token)
            await asyncio.sleep(0.01)
        (piece, *_) = reading.result()
    assert isinstance(piece, StreamedEvent)
    assert b"heard" in piece.data


async def test_form_for_readers_is_made_again_after_a_redaction(watched: WatchedLog) -> None:
    await watched.append_turns(1)
    await watched.story.append_events(TurnCompleted(turn=1, text=PlainText(text="a secret")))
    redaction = ReplyRedacted(turn=1, reason="x", rule="r", replacement=PlainText(text="withheld"))
    async with watched.watch() as one:
        events = await one.take_events()
    redacted = RedactedTurns()
    reply = events[-1]
    first = reply.format_for(redacted)
    assert first is not None
    assert b"a secret" in first.data
    assert reply.format_for(redacted) is first
    await watched.story.append_events(redaction)
    async with watched.watch(3) as one:
        (withheld,) = await one.take_events()
    withheld.format_for(redacted)
    data = [form.data for by in (redacted, None) if (form := reply.format_for(by))]
    assert [b"a secret" in each for each in data] == [False, True]
