"""A command is decided on the cached state, and corrected on the leader's state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import pytest

from tests.parts.house import BY, TENANT, House
from turnlog.events.codec import CommandRef
from turnlog.events.content import compute_digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.session.commands import CancelTurn, ExcludeTurn, RestoreTurn, SubmitTurn

ONE_AT_A_TIME = Policies(second_submit="reject")


@dataclass
class ReadLog(MemoryLog):
    """A log that records what is read from it."""

    reads: list[str] = field(default_factory=list[str])

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        self.reads.append("last")
        return await super().read_last_event(tenant, session, leader=leader)

    async def read_events_at(
        self, tenant: str, stream_sequences: Sequence[int]
    ) -> Sequence[RecordedEvent]:
        self.reads.append("at")
        return await super().read_events_at(tenant, stream_sequences)

    async def read_range(
        self, tenant: str, session: str, after: ChainHead | None, upto: RecordedEvent
    ) -> Sequence[RecordedEvent]:
        self.reads.append("between")
        await asyncio.sleep(0)
        return await super().read_range(tenant, session, after, upto)


@dataclass
class LaggingLog(MemoryLog):
    """A log whose followers hold the events up to `upto`."""

    upto: RecordedEvent | None = None

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        if self.upto is not None and not leader:
            return self.upto
        return await super().read_last_event(tenant, session, leader=leader)


@dataclass
class CrossingLog(MemoryLog):
    """A log where something is appended, once, while the leader answers."""

    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        found = await super().read_last_event(tenant, session, leader=leader)
        if leader and self.meanwhile:
            crossing, self.meanwhile = self.meanwhile, None
            await crossing()
        return found


@pytest.fixture
def log() -> ReadLog:
    return ReadLog()


@pytest.fixture
def house(log: ReadLog) -> House:
    return House(log)


async def test_a_command_on_a_state_that_is_held_reads_nothing(house: House, log: ReadLog) -> None:
    await house.open()
    await house.answer(await house.submit("One"))
    await house.state()
    log.reads.clear()
    await house.sessions.handle(TENANT, "s", ExcludeTurn(1), BY)
    assert log.reads == []


async def test_a_worker_does_not_read_again_what_it_said_and_asked(
    house: House, log: ReadLog
) -> None:
    await house.open()
    worker = house.worker()
    await house.answer(await house.submit("One"), worker)
    log.reads.clear()
    await house.answer(await house.submit("Two"), worker)
    assert "at" not in log.reads
    assert len(house.model.requests[-1].messages) > len(house.model.requests[0].messages)


async def test_nobody_is_refused_by_a_state_that_is_no_longer_so(house: House) -> None:
    await house.open()
    said = asyncio.Event()
    house.model.scripts.append([said, "ok"])
    submitted = await house.submit("One", policies=ONE_AT_A_TIME)
    answering = asyncio.create_task(house.answer(submitted))
    await house.heard(1)
    running = await house.state()
    assert running.open
    assert running.open.running
    said.set()
    await answering
    again = await house.submit("Two", policies=ONE_AT_A_TIME)
    assert again.sequence > running.head.sequence + 1


async def test_nothing_is_left_undone_by_a_state_that_is_no_longer_so(house: House) -> None:
    await house.open()
    await house.answer(await house.submit("One"))
    await house.sessions.handle(TENANT, "s", ExcludeTurn(1), BY)
    await house.sessions_of("/test/other").handle(TENANT, "s", RestoreTurn(1), BY)
    done = await house.sessions.handle(TENANT, "s", ExcludeTurn(1), BY)
    assert [recorded.event for recorded in done.events] != []
    assert (await house.state()).turns[0].excluded


async def test_a_key_that_came_to_another_process_first_has_one_effect(house: House) -> None:
    await house.open()
    await house.state()
    key, submit = CommandRef("key", compute_digest("body")), SubmitTurn("One", Policies())
    first = await house.sessions_of("/test/other").handle(TENANT, "s", submit, BY, key)
    again = await house.sessions.handle(TENANT, "s", submit, BY, key)
    assert again.events == ()
    assert again.memo
    assert again.memo.sequence == first.state.head.sequence
    with pytest.raises(Refused, match="another body"):
        await house.sessions.handle(
            TENANT, "s", submit, BY, CommandRef("key", compute_digest("other"))
        )


async def test_only_the_very_next_event_is_taken_in(house: House, log: ReadLog) -> None:
    await house.open()
    other = house.sessions_of("/test/other")
    before = await other.require_state(TENANT, "s")
    events = [await house.submit("One"), await house.submit("Two")]
    log.reads.clear()
    other.apply_observed_event(events[1])
    assert other.state_cache.get_state(TENANT, "s") == before
    for event in (*events, events[0]):
        other.apply_observed_event(event)
    held = other.state_cache.get_state(TENANT, "s")
    assert held
    assert held.head == events[1].head
    assert log.reads == []


async def test_a_command_that_is_seen_half_is_answered_as_a_whole() -> None:
    log = CrossingLog()
    house = House(log)
    await house.open()
    other = house.sessions_of("/test/other")
    for text in ("One", "Two"):
        await house.submit(text)
    await other.require_state(TENANT, "s")
    key, cancel = CommandRef("key", compute_digest("body")), CancelTurn(None)
    done: list[RecordedEvent] = []

    async def cancelled_elsewhere() -> None:
        done.extend((await house.sessions.handle(TENANT, "s", cancel, BY, key)).events)
        other.apply_observed_event(done[0])

    log.meanwhile = cancelled_elsewhere
    again = await other.handle(TENANT, "s", cancel, BY, key)
    assert len(done) > 1
    assert again.memo
    assert again.memo.sequence == done[-1].sequence


async def test_many_who_ask_at_once_read_a_session_once(house: House, log: ReadLog) -> None:
    await house.open()
    await house.answer(await house.submit("One"))
    other = house.sessions_of("/test/other")
    log.reads.clear()
    states = await asyncio.gather(*(other.require_state(TENANT, "s") for _ in range(20)))
    assert log.reads.count("between") == 1
    assert len({id(state) for state in states}) == 1


async def test_nobody_is_refused_by_what_a_follower_that_lags_still_says() -> None:
    log = LaggingLog()
    house = House(log)
    await house.open()
    submitted = await house.submit("One")
    log.upto = submitted
    await house.answer(submitted)
    another_gateway = house.sessions_of("/test/another")
    await another_gateway.handle(TENANT, "s", ExcludeTurn(1), BY)
    assert house.names()[-1] == "turn-excluded"
    log.upto = house.events()[-1]
    await house.sessions.handle(TENANT, "s", RestoreTurn(1), BY)
    a_third = house.sessions_of("/test/third")
    await a_third.handle(TENANT, "s", ExcludeTurn(1), BY)
    assert house.names()[-1] == "turn-excluded"
